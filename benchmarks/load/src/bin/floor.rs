//! The floor: our transport, runtime and allocator with a constant answer. What a decision costs
//! on top of it is ours to answer for; what stands below is the protocol's price.

use std::cell::Cell;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_load::arguments::{Arguments, from_hex};
use tidegate_server::drain::{Drain, drain};
use tidegate_server::grpc::transport::{
    Call, Message, Reply, Server, Service, Settings, Stats, Status,
};
use tidegate_server::listen::{Address, Socket, bind};
use tidegate_server::workers::{Beginning, Options, Serve, Serving, Workers, without_huge_pages};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// `RateLimitResponse {overall_code: OK, statuses: [{code: OK, current_limit: {requests_per_unit:
/// 1000000, unit: MINUTE}, limit_remaining: 999999, duration_until_reset: {seconds: 1}}]}`.
const ANSWER: &str = "0801 1212 0801 1206 08c0843d1002 18bf843d 22020801";

/// Methods of the probe service: the transport's tests call them.
const PROBES: [(&str, Method); 6] = [
    ("/tidegate.probe.Transport/Calls", Method::Calls),
    ("/tidegate.probe.Transport/Echo", Method::Echo),
    ("/tidegate.probe.Transport/Later", Method::Later),
    ("/tidegate.probe.Transport/Panic", Method::Panic),
    ("/tidegate.probe.Transport/Watch", Method::Watch),
    ("/tidegate.probe.Transport/Fail", Method::Fail),
];

#[derive(Clone, Copy)]
enum Method {
    RateLimit,
    /// Says how many calls of probes came before it, as text.
    Calls,
    /// Sends the message back.
    Echo,
    /// Sends the message back after 100 ms.
    Later,
    Panic,
    /// Sends the message back and keeps the stream open.
    Watch,
    /// Fails with the message as its text.
    Fail,
}

struct Floor {
    answer: Message,
    has_probes: bool,
    probe_calls: Cell<u64>,
}

impl Service for Floor {
    type Method = Method;
    type Later = Pin<Box<dyn Future<Output = Result<Message, Status>>>>;
    type Several = std::future::Ready<()>;

    fn method(&self, path: &str) -> Option<Method> {
        if path == RATE_LIMIT {
            return Some(Method::RateLimit);
        }
        let known = PROBES.iter().find(|(probe, _)| self.has_probes && *probe == path);
        known.map(|(_, method)| *method)
    }

    fn call(&self, method: Method, call: Call) -> Reply<Self::Later> {
        if matches!(method, Method::RateLimit) {
            return Reply::Ready(Ok(self.answer.clone()));
        }
        let calls = self.probe_calls.replace(self.probe_calls.get() + 1);
        match method {
            Method::RateLimit | Method::Calls => {
                Reply::Ready(Ok(Message::new(calls.to_string().as_bytes())))
            }
            Method::Echo => Reply::Ready(Ok(Message::new(&call.message))),
            Method::Later => Reply::Later(Box::pin(async move {
                sleep(Duration::from_millis(100)).await;
                Ok(Message::new(&call.message))
            })),
            Method::Panic => panic!("asked for by the caller"),
            Method::Watch => Reply::Stream(watch(call.message)),
            Method::Fail => {
                let text = String::from_utf8_lossy(&call.message).into_owned();
                Reply::Ready(Err(Status::invalid_argument(text)))
            }
        }
    }
}

fn watch(message: Bytes) -> mpsc::Receiver<Result<Message, Status>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_local(async move {
        let _ = sender.send(Ok(Message::new(&message))).await;
        sender.closed().await;
    });
    receiver
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("floor: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = Arguments::from_env(&["probes"])?;
    let port = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.or("port", 0)?));
    let workers = arguments.or("workers", 1)?;
    let answer = arguments.or("answer", ANSWER.replace(' ', ""))?;
    let has_probes = arguments.flag("probes");
    let settings = Settings {
        handshake_timeout: millis(&mut arguments, "handshake-ms", 5000)?,
        body_timeout: millis(&mut arguments, "body-ms", 5000)?,
        send_timeout: millis(&mut arguments, "send-ms", 10_000)?,
        keepalive_idle: millis(&mut arguments, "idle-ms", 60_000)?,
        keepalive_timeout: millis(&mut arguments, "keepalive-ms", 20_000)?,
        max_age: millis(&mut arguments, "age-ms", 30 * 60_000)?,
        age_grace: millis(&mut arguments, "grace-ms", 60_000)?,
        drain_limit: millis(&mut arguments, "drain-ms", 8000)?,
        max_buffered: arguments.or("buffered", 64 << 20)?,
        ..Settings::default()
    };
    arguments.finish()?;
    let answer = Message::new(&from_hex(&answer)?);
    let listener = bind(&Address::Tcp(port)).map_err(|error| error.to_string())?;
    let address = listener.address();
    without_huge_pages();
    let (stop, stopping) = drain();
    let stats = Arc::new(Stats::default());
    let seen = stopping.clone();
    let doors = move |_| {
        let floor = Floor { answer: answer.clone(), has_probes, probe_calls: Cell::new(0) };
        let server = Server::new(floor, settings.clone(), Arc::clone(&stats), seen.clone());
        vec![Box::new(move |socket| serve(&server, socket)) as Serve]
    };
    let options = Options { workers, ..Options::default() };
    let workers = Workers::start(&options, vec![listener], &stopping, doors)
        .map_err(|error| error.to_string())?;
    println!("listening on {address}");
    wait_for_signal(&stopping).map_err(|error| error.to_string())?;
    stop.start();
    workers.join();
    Ok(())
}

fn serve(server: &Rc<Server<Floor>>, socket: Socket) -> Beginning {
    let serving: Serving = Box::pin(Rc::clone(server).serve(socket));
    Box::pin(ready(Some(serving)))
}

fn millis(arguments: &mut Arguments, name: &str, default: u64) -> Result<Duration, String> {
    arguments.or(name, default).map(Duration::from_millis)
}

fn wait_for_signal(stopping: &Drain) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stopping.clone().started() => {}
        }
        Ok(())
    })
}
