//! A bug of ours costs the request that met it. Its like is met at a path that releases lack.

/// Whoever asks for it meets a bug.
pub const PATH: &str = "/a-bug";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_counters::{Clock, MemoryOptions, MemoryStore};

    use super::PATH;
    use crate::listen::Address;
    use crate::{Node, Server, ServerOptions, Store};

    fn server() -> (Server, SocketAddr) {
        let store = MemoryStore::new(MemoryOptions { max_counters: 100 });
        let node = Arc::new(Node::new(Store::Memory(store), Arc::new(Clock::default())));
        let any = || "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions {
            http: any(),
            grpc: any(),
            drain_notice: Duration::ZERO,
            ..ServerOptions::default()
        };
        let server = Server::start(node, &options).unwrap();
        let Address::Tcp(address) = server.http_address().clone() else { unreachable!() };
        (server, address)
    }

    struct Client(TcpStream);

    impl Client {
        fn new(address: SocketAddr) -> Self {
            let socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            Self(socket)
        }

        /// Asks for these, all at once.
        fn ask(&mut self, paths: &[&str]) {
            for path in paths {
                write!(self.0, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            }
        }

        /// What comes, up to and with `end`.
        fn until(&mut self, end: &str) -> String {
            let mut answer = Vec::new();
            while !answer.ends_with(end.as_bytes()) {
                let mut byte = [0];
                self.0.read_exact(&mut byte).unwrap();
                answer.extend(byte);
            }
            String::from_utf8(answer).unwrap()
        }
    }

    #[test]
    fn a_panic_is_one_internal_answer_and_a_count_and_nobody_elses() {
        let (server, address) = server();
        // One worker serves both: the panic is on the thread of the other one.
        let (mut met, mut other) = (Client::new(address), Client::new(address));
        other.ask(&["/healthz"]);
        other.until("ok\n");
        met.ask(&["/healthz", PATH, "/healthz"]);
        let answers = met.until("ok\n") + &met.until("ok\n");
        let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|text| &text[..3]).collect();
        assert_eq!(statuses, ["200", "500", "200"], "{answers}");
        assert!(answers.contains("content-type: application/problem+json"), "{answers}");
        assert!(answers.contains("\"detail\":\"a bug in the server; its log holds the place\""));
        assert!(!answers.contains("asked for"), "the panic's words are for the log: {answers}");
        other.ask(&["/metrics"]);
        other.until("tidegate_panics_total{door=\"http\"} 1\n");
        server.drain();
    }
}
