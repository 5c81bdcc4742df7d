//! Both doors on one set of workers: start, addresses, drain.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crate::access::{AdminToken, DoorToken};
use crate::drain::{self, Drain, DrainHandle, LocalDrain};
use crate::forward_auth::ForwardAuth;
use crate::grpc::rls::RateLimitDoor;
use crate::grpc::services::Services;
use crate::grpc::transport;
use crate::headers::HeaderProfile;
use crate::http::{HttpDoor, HttpStats};
use crate::listen::{self, Address, BindError, Opening, OpeningStats, Protocol, Socket};
use crate::node::Node;
use crate::pipeline::WorkerNode;
use crate::tls::{Certificates, Follower, TlsError, TlsFiles};
use crate::workers::{self, Serve, Serves, Serving, Workers};

/// Where to listen and how to answer.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where HTTP is served; port 0 takes a free one.
    pub http: Address,
    /// Where gRPC is served; port 0 takes a free one.
    pub grpc: Address,
    /// Certificates for connections from the network; none: these are not encrypted. Socket
    /// files never are.
    pub tls: Option<TlsFiles>,
    /// How long a connection's handshake and first bytes may take.
    pub opening_limit: Duration,
    /// Threads that serve.
    pub workers: usize,
    /// Connections open at once, both doors together.
    pub max_connections: usize,
    /// Of these, by one peer at most: an address, or a /64 of IPv6; none: three quarters of them.
    pub max_of_a_peer: Option<usize>,
    /// Which headers clients are sent.
    pub header_profile: HeaderProfile,
    /// Who may reset and refund over the network; none: nobody.
    pub admin_token: Option<String>,
    /// What every question must carry; none: nothing.
    pub door_token: Option<String>,
    /// The doors for proxies.
    pub forward_auth: Arc<ForwardAuth>,
    /// How long "not ready" is told before connections are asked to leave.
    pub drain_notice: Duration,
    /// How long requests in flight may then take.
    pub drain_limit: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into(),
            grpc: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)).into(),
            tls: None,
            opening_limit: Duration::from_secs(5),
            workers: 1,
            max_connections: 10_000,
            max_of_a_peer: None,
            header_profile: HeaderProfile::default(),
            admin_token: None,
            door_token: None,
            forward_auth: Arc::default(),
            drain_notice: Duration::from_millis(100),
            drain_limit: Duration::from_secs(9),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("the {door} door: {source}")]
    Bind {
        /// HTTP or gRPC.
        door: &'static str,
        /// Which address, and what to do.
        source: BindError,
    },
    /// Certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The system gave no threads or event queues.
    #[error("cannot start the worker threads: {0}")]
    Threads(#[from] io::Error),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    workers: Workers,
    drain: DrainHandle,
    notice: Duration,
    http: Address,
    grpc: Address,
    certificates: Option<Arc<Certificates>>,
    /// Dropped with the server, which ends its thread.
    _follower: Option<Follower>,
}

impl Server {
    /// Opens both ports and serves this node there. The node may have no policy yet: it is then
    /// not ready, and says so.
    ///
    /// # Errors
    /// An address that cannot be listened on, certificates that cannot be used, or no threads.
    pub fn start(node: Arc<Node>, options: &ServerOptions) -> Result<Self, StartError> {
        workers::without_huge_pages();
        let bind = |door, address| {
            listen::bind(address).map_err(|source| StartError::Bind { door, source })
        };
        let certificates = options.tls.clone().map(Certificates::load).transpose()?.map(Arc::new);
        let follower = certificates.clone().map(Follower::start).transpose()?;
        let (http, grpc) = (bind("HTTP", &options.http)?, bind("gRPC", &options.grpc)?);
        let (http_address, grpc_address) = (http.address(), grpc.address());
        let (handle, drain) = drain::drain();
        let limits = workers::Options {
            workers: options.workers,
            max_connections: options.max_connections,
            max_of_a_peer: options.max_of_a_peer.unwrap_or_else(|| share(options.max_connections)),
            stats: Arc::default(),
            drain_limit: options.drain_limit,
        };
        let (node_of_doors, stats) = (Arc::clone(&node), Arc::clone(&limits.stats));
        let doors = Doors::new(node_of_doors, options, certificates.clone(), drain.clone(), stats);
        let workers = Workers::start(&limits, vec![http, grpc], &drain, move |_| doors.open())?;
        Ok(Self {
            node,
            workers,
            drain: handle,
            notice: options.drain_notice,
            http: http_address,
            grpc: grpc_address,
            certificates,
            _follower: follower,
        })
    }

    /// Where HTTP is served.
    pub const fn http_address(&self) -> &Address {
        &self.http
    }

    /// Where gRPC is served.
    pub const fn grpc_address(&self) -> &Address {
        &self.grpc
    }

    /// The certificates that new connections are opened with; none: no TLS.
    pub const fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }

    /// The node that answers here.
    pub const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Ends service: says "not ready", asks connections to leave, lets requests in flight finish,
    /// and returns once the threads have ended. Blocks for the notice and the limit at most.
    pub fn drain(self) {
        self.node.start_draining();
        // Health watchers and the next probe learn of it while requests are still taken.
        thread::sleep(self.notice);
        self.drain.start();
        self.workers.join();
    }
}

/// Places for one peer where nobody says how many: a gateway has no use for that many, and one that
/// runs wild leaves some to the others.
const fn share(places: usize) -> usize {
    places - places / 4
}

/// What each worker's doors share.
struct Doors {
    node: Arc<Node>,
    rate_limit: Arc<RateLimitDoor>,
    forward_auth: Arc<ForwardAuth>,
    settings: transport::Settings,
    grpc_stats: Arc<transport::Stats>,
    http_stats: Arc<HttpStats>,
    opening: Opening,
    opening_stats: Arc<OpeningStats>,
    certificates: Option<Arc<Certificates>>,
    drain: Drain,
}

impl Doors {
    fn new(
        node: Arc<Node>,
        options: &ServerOptions,
        certificates: Option<Arc<Certificates>>,
        drain: Drain,
        opening_stats: Arc<OpeningStats>,
    ) -> Self {
        let admin = AdminToken::new(options.admin_token.as_deref());
        let settings = transport::Settings {
            // Before the workers cut what is left, so that clients see the stream's end.
            drain_limit: options.drain_limit.mul_f32(0.9),
            ..transport::Settings::default()
        };
        let opening = Opening::new(
            certificates.clone(),
            options.opening_limit,
            drain.clone(),
            Arc::clone(&opening_stats),
        );
        Self {
            node,
            rate_limit: Arc::new(RateLimitDoor {
                profile: options.header_profile,
                admin,
                token: DoorToken::new(options.door_token.as_deref()),
            }),
            forward_auth: Arc::clone(&options.forward_auth),
            settings,
            grpc_stats: Arc::default(),
            http_stats: Arc::default(),
            opening,
            opening_stats,
            certificates,
            drain,
        }
    }

    /// The doors of one worker, in the order of the listeners: each serves both protocols.
    fn open(&self) -> Serves {
        let node = Rc::new(WorkerNode::new(Arc::clone(&self.node)));
        let leaving = Rc::clone(&node);
        let http = HttpDoor {
            node: Rc::clone(&node),
            rate_limit: Arc::clone(&self.rate_limit),
            forward_auth: Arc::clone(&self.forward_auth),
            stats: Arc::clone(&self.http_stats),
            grpc_stats: Arc::clone(&self.grpc_stats),
            opening_stats: Arc::clone(&self.opening_stats),
            certificates: self.certificates.clone(),
            draining: LocalDrain::new(self.drain.clone()),
        };
        let services = Services::new(node, Arc::clone(&self.rate_limit));
        let grpc = transport::Server::new(
            services,
            self.settings.clone(),
            Arc::clone(&self.grpc_stats),
            self.drain.clone(),
        );
        let both = Rc::new(Both { opening: self.opening.clone(), http: Rc::new(http), grpc });
        let serve = || -> Serve {
            let both = Rc::clone(&both);
            Box::new(move |socket| Box::pin(Rc::clone(&both).open(socket)))
        };
        Serves::from(vec![serve(), serve()]).leaving(Box::pin(async move {
            leaving.leave().await;
        }))
    }
}

/// Both protocols, of which a connection's first bytes choose.
struct Both {
    opening: Opening,
    http: Rc<HttpDoor>,
    grpc: Rc<transport::Server<Services>>,
}

impl Both {
    async fn open(self: Rc<Self>, socket: Socket) -> Option<Serving> {
        let (socket, protocol) = self.opening.open(socket).await?;
        Some(match protocol {
            Protocol::Http2 => Box::pin(Rc::clone(&self.grpc).serve(socket)),
            Protocol::Http1 => Box::pin(Rc::clone(&self.http).serve(socket)),
        })
    }
}
