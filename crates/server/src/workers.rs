//! Worker threads: one runtime each, fed with accepted sockets round robin.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;

use crate::drain::Drain;
use crate::listen::{Accepted, Listener, Listening, OpeningStats, Socket};
use crate::places::{Here, Place, Places};

/// Serves one socket on a worker's thread, inside a runtime that has `spawn_local`.
pub type Serve = Box<dyn Fn(Socket) -> Beginning>;

/// A connection's first seconds; none: it came to nothing.
pub type Beginning = Pin<Box<dyn Future<Output = Option<Serving>>>>;

/// The rest of its life.
pub type Serving = Pin<Box<dyn Future<Output = ()>>>;

/// What a worker still tells others at its end.
pub type Leave = Pin<Box<dyn Future<Output = ()>>>;

/// How one worker serves its listeners, in their order, and how it leaves.
pub struct Serves {
    serve: Vec<Serve>,
    leave: Option<Leave>,
}

impl From<Vec<Serve>> for Serves {
    /// A worker that leaves without a word.
    fn from(serve: Vec<Serve>) -> Self {
        Self { serve, leave: None }
    }
}

impl Serves {
    /// The same, and what is done once the connections have ended; it must end soon by itself.
    #[must_use]
    pub fn leaving(mut self, leave: Leave) -> Self {
        self.leave = Some(leave);
        self
    }
}

/// How many threads, how many sockets, how long the end may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads.
    pub workers: usize,
    /// Sockets open at once, over all listeners; one above is closed at once.
    pub max_connections: usize,
    /// Of these, by one peer at most: an address, or a /64 of IPv6.
    pub max_of_a_peer: usize,
    /// Where those above are counted.
    pub stats: Arc<OpeningStats>,
    /// After the drain signal: how long connections may finish before they are cut.
    pub drain_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let drain_limit = Duration::from_secs(9);
        Self {
            workers: 1,
            max_connections: 10_000,
            max_of_a_peer: 10_000,
            stats: Arc::default(),
            drain_limit,
        }
    }
}

/// Keeps this process from huge pages, for which the allocator asks otherwise. The buffers of a
/// connection are large and an idle one has touched a little of them: with huge pages all of them
/// are resident, which is twice the memory.
pub fn without_huge_pages() {
    // Where the system refuses, service goes on with more memory.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// An accepted socket on its way to a worker.
struct Handed {
    listener: usize,
    socket: Accepted,
    place: Place,
}

/// The task of a connection that serves. By hand, because an async block would hold the state
/// twice: with three words a task takes 128 bytes, with one more 256.
struct Connection {
    serving: Serving,
    /// The last to be dropped.
    _place: Place,
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.serving.as_mut().poll(cx)
    }
}

/// Where the acceptor brings a worker's sockets.
#[derive(Clone)]
struct Queue {
    handed: mpsc::UnboundedSender<Handed>,
    here: Arc<Here>,
}

/// Running workers and their acceptor.
#[derive(Debug)]
pub struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Starts the threads. `doors` runs once on each worker's thread, inside its runtime, and
    /// returns how to serve each of the `listeners`, in their order. Raising the drain signal
    /// stops the accepting, lets connections finish and ends the threads.
    ///
    /// # Errors
    /// The system gave no thread or no event queue.
    pub fn start<F, S>(
        options: &Options,
        listeners: Vec<Listener>,
        drain: &Drain,
        doors: F,
    ) -> io::Result<Self>
    where
        F: Fn(usize) -> S + Send + Sync + 'static,
        S: Into<Serves>,
    {
        let doors = Arc::new(doors);
        let mut threads = Vec::with_capacity(options.workers + 1);
        let mut queues = Vec::with_capacity(options.workers);
        for index in 0..options.workers.max(1) {
            let (queue, handed) = mpsc::unbounded_channel();
            let here = Arc::<Here>::default();
            queues.push(Queue { handed: queue, here: Arc::clone(&here) });
            let (doors, drain, limit) = (Arc::clone(&doors), drain.clone(), options.drain_limit);
            threads.push(spawn(format!("tidegate-{index}"), move |runtime| {
                runtime.block_on(async {
                    work(doors(index).into(), handed, here, drain, limit).await;
                });
            })?);
        }
        let (drain, stats) = (drain.clone(), Arc::clone(&options.stats));
        let places = Places::new(options.max_connections, options.max_of_a_peer, stats);
        threads.push(spawn("tidegate-accept".to_owned(), move |runtime| {
            runtime.block_on(accept_all(listeners, queues, places, drain));
        })?);
        Ok(Self(threads))
    }

    /// Waits for the end of all threads, which follows the drain signal.
    pub fn join(self) {
        for thread in self.0 {
            // A thread that panicked has said so on stderr, and the others still end.
            let _ = thread.join();
        }
    }
}

fn spawn<F>(name: String, body: F) -> io::Result<JoinHandle<()>>
where
    F: FnOnce(LocalRuntime) + Send + 'static,
{
    let (ready, started) = std::sync::mpsc::sync_channel(1);
    let thread =
        thread::Builder::new().name(name).spawn(move || {
            match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    body(runtime);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("a thread ended as it started")))?;
    Ok(thread)
}

async fn work(
    doors: Serves,
    mut handed: mpsc::UnboundedReceiver<Handed>,
    here: Arc<Here>,
    drain: Drain,
    limit: Duration,
) {
    while let Some(Handed { listener, socket, place }) = handed.recv().await {
        let Ok(socket) = Socket::new(socket) else { continue };
        let beginning = doors.serve[listener](socket);
        spawn_local(async move {
            if let Some(serving) = beginning.await {
                spawn_local(Connection { serving, _place: place });
            }
        });
    }
    // The acceptor ends at the drain signal; if it died instead, service goes on until then.
    drain.started().await;
    // What is left is cut by the end of the runtime.
    let _ = timeout(limit, here.end()).await;
    if let Some(leave) = doors.leave {
        leave.await;
    }
}

async fn accept_all(
    listeners: Vec<Listener>,
    queues: Vec<Queue>,
    places: Arc<Places>,
    drain: Drain,
) {
    let mut accepting = JoinSet::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        let (queues, places) = (queues.clone(), Arc::clone(&places));
        accepting.spawn_local(async move {
            if let Ok(listener) = listener.listen() {
                accept(index, &listener, &queues, &places).await;
            }
        });
    }
    drop(queues);
    drain.started().await;
}

async fn accept(index: usize, listener: &Listening, queues: &[Queue], places: &Arc<Places>) {
    for queue in queues.iter().cycle() {
        let (socket, peer) = loop {
            match listener.accept().await {
                Ok(accepted) => break accepted,
                // Out of file descriptors, most likely: they come back as connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let Some(place) = places.take(&queue.here, peer) else { continue };
        let _ = queue.handed.send(Handed { listener: index, socket, place });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream as StdStream};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::drain::{DrainHandle, drain};
    use crate::listen::{Address, bind};

    /// Workers that greet each connection with their number and keep it until the peer leaves.
    fn greeters(options: &Options) -> (SocketAddr, Workers, DrainHandle) {
        let listener = bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(address) = listener.address() else { unreachable!() };
        let (stop, stopping) = drain();
        let doors = |index| vec![Box::new(move |socket| greet(index, socket)) as Serve];
        let workers = Workers::start(options, vec![listener], &stopping, doors).unwrap();
        (address, workers, stop)
    }

    fn greet(index: usize, mut socket: Socket) -> Beginning {
        Box::pin(async move {
            let _ = socket.write_u8(index as u8).await;
            let serving: Serving = Box::pin(async move {
                let _ = socket.read_u8().await;
            });
            Some(serving)
        })
    }

    fn greeted(address: SocketAddr) -> (Option<u8>, StdStream) {
        let mut socket = StdStream::connect(address).unwrap();
        let mut number = [0];
        let read = socket.read(&mut number).unwrap_or(0);
        ((read == 1).then_some(number[0]), socket)
    }

    #[test]
    fn task_of_a_connection_is_three_words() {
        assert_eq!(size_of::<Connection>(), 3 * size_of::<usize>());
    }

    #[test]
    fn sockets_go_round() {
        let (address, workers, stop) = greeters(&Options { workers: 2, ..Options::default() });
        let open: Vec<_> = (0..4).map(|_| greeted(address)).collect();
        let served: Vec<_> = open.iter().map(|(number, _)| number.unwrap()).collect();
        assert_eq!(served, [0, 1, 0, 1]);
        drop(open);
        stop.start();
        workers.join();
    }

    #[test]
    fn socket_above_the_cap_is_closed_until_there_is_room() {
        let (address, workers, stop) =
            greeters(&Options { max_connections: 1, ..Options::default() });
        let (first, mut socket) = greeted(address);
        assert_eq!(first, Some(0));
        assert_eq!(greeted(address).0, None);
        socket.write_all(b"bye").unwrap();
        assert!(std::iter::repeat_with(|| greeted(address).0).take(10_000).any(|n| n.is_some()));
        stop.start();
        workers.join();
    }

    #[test]
    fn peer_above_its_share_is_closed_though_there_is_room() {
        let (address, workers, stop) =
            greeters(&Options { max_of_a_peer: 1, ..Options::default() });
        let first = greeted(address);
        assert_eq!((first.0, greeted(address).0), (Some(0), None));
        stop.start();
        workers.join();
    }

    #[test]
    fn drain_cuts_what_does_not_end_in_time() {
        let limit = Duration::from_millis(50);
        let (address, workers, stop) =
            greeters(&Options { drain_limit: limit, ..Options::default() });
        let (_, mut socket) = greeted(address);
        stop.start();
        workers.join();
        assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
        assert!(StdStream::connect(address).is_err());
    }
}
