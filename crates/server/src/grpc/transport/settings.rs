//! The limits of a connection. The HTTP/2 library's own defaults are unsafe for a public port.

use std::time::Duration;

use h2::server::Builder;

/// What one connection may take and how long it may last.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Streams in flight on one connection; one above is refused, which Envoy takes as "fail open".
    pub max_concurrent_streams: u32,
    /// Streams reset before they were accepted. Envoy cancels everything after a stall of 20 ms,
    /// and the library's default of 20 would then close its connection.
    pub max_pending_accept_resets: usize,
    /// Bytes of a decoded header list; one above is answered with 431.
    pub max_header_list: u32,
    /// Receive window of a stream, in bytes.
    pub stream_window: u32,
    /// Receive window of a connection, in bytes.
    pub connection_window: u32,
    /// Longest request message, in bytes.
    pub max_message: usize,
    /// Bytes that the unfinished requests of one worker may hold together.
    pub max_buffered: usize,
    /// How long the preface may take.
    pub handshake_timeout: Duration,
    /// How long a request's message may take.
    pub body_timeout: Duration,
    /// How long an answer may wait for the client's window.
    pub send_timeout: Duration,
    /// Silence after which the client is asked for a sign of life.
    pub keepalive_idle: Duration,
    /// How long that sign of life, or a blocked socket, may take.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is asked to leave, plus or minus a tenth.
    pub max_age: Duration,
    /// How long a connection that was asked to leave for its age may finish its streams.
    pub age_grace: Duration,
    /// The same for a server that stops.
    pub drain_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 1024,
            max_pending_accept_resets: 1000,
            max_header_list: 64 << 10,
            stream_window: 1 << 20,
            connection_window: 4 << 20,
            max_message: 4 << 20,
            max_buffered: 64 << 20,
            handshake_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(5),
            send_timeout: Duration::from_secs(10),
            keepalive_idle: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(20),
            max_age: Duration::from_secs(30 * 60),
            age_grace: Duration::from_secs(60),
            drain_limit: Duration::from_secs(8),
        }
    }
}

impl Settings {
    /// The library's builder under these limits. Its cap on streams reset for protocol errors
    /// (1024 over the connection's life) is a defence and stays as it is.
    pub(super) fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(self.max_concurrent_streams)
            .max_pending_accept_reset_streams(self.max_pending_accept_resets)
            .max_header_list_size(self.max_header_list)
            .initial_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window);
        builder
    }
}
