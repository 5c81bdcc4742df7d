//! The floor of HTTP: a bare hyper server with a constant answer, on our runtime and allocator.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tidegate_load::arguments::{Arguments, from_hex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("http-floor: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = Arguments::from_env(&[])?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.or("port", 0)?));
    let answer: String = arguments.optional("answer")?.ok_or("--answer HEX is needed")?;
    arguments.finish()?;
    let answer = Bytes::from(from_hex(&answer)?);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| error.to_string())?;
    // Until it is told to stop: a signal ends the process, there is nothing to lose.
    runtime.block_on(accept(address, answer)).map_err(|error| error.to_string())
}

async fn accept(address: SocketAddr, answer: Bytes) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::task::spawn_local(serve(socket, answer.clone()));
    }
}

fn serve(socket: TcpStream, answer: Bytes) -> Pin<Box<dyn Future<Output = ()>>> {
    let service = service_fn(move |request: Request<Incoming>| reply(request, answer.clone()));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    Box::pin(async move {
        // How a connection ended concerns its peer alone.
        let _ = connection.await;
    })
}

async fn reply(
    request: Request<Incoming>,
    answer: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_whole = request.into_body().collect().await.is_ok();
    let mut response = Response::new(Full::new(answer));
    if !is_whole {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
