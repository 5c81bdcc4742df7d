//! A small gRPC client: messages written and read by the test, statuses as they come.

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use std::net::SocketAddr;
use tidegate_server::grpc::wire::{Fields, Value, put_bytes, put_message, put_number};
use tokio::net::TcpStream;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// One connection.
pub struct Client(SendRequest<Bytes>);

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    pub status: u16,
    pub text: String,
    pub message: Bytes,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// Over a connection that is open and served.
    pub const fn over(connection: SendRequest<Bytes>) -> Self {
        Self(connection)
    }

    /// Begins a call; its answer's body follows.
    pub async fn begin(
        &self,
        path: &str,
        message: &[u8],
        token: Option<&str>,
    ) -> http::Response<h2::RecvStream> {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", &**bearer)).collect();
        self.begin_with(path, message, &headers).await
    }

    async fn begin_with(
        &self,
        path: &str,
        message: &[u8],
        headers: &[(&str, &str)],
    ) -> http::Response<h2::RecvStream> {
        let mut request = Request::post(format!("http://tidegate{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut client = self.0.clone().ready().await.unwrap();
        let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
        let mut framed = vec![0];
        framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
        framed.extend_from_slice(message);
        body.send_data(framed.into(), true).unwrap();
        answer.await.unwrap()
    }

    pub async fn call(&self, path: &str, message: &[u8], token: Option<&str>) -> Ended {
        Ended::of(self.begin(path, message, token).await).await
    }

    /// A call that belongs to a trace, if it says so.
    pub async fn ask_traced(&self, request: &Ask, traceparent: Option<&str>) -> Ended {
        let headers: Vec<_> = traceparent.iter().map(|parent| ("traceparent", *parent)).collect();
        Ended::of(self.begin_with(SHOULD_RATE_LIMIT, &request.encode(), &headers).await).await
    }

    pub async fn ask(&self, request: &Ask) -> Ended {
        self.call(SHOULD_RATE_LIMIT, &request.encode(), request.token).await
    }

    /// An answer that is expected to be one.
    pub async fn told(&self, request: &Ask) -> Told {
        let ended = self.ask(request).await;
        assert_eq!(ended.status, 0, "{}", ended.text);
        Told::decode(&ended.message)
    }
}

impl Ended {
    async fn of(answer: http::Response<h2::RecvStream>) -> Self {
        let (head, mut body) = answer.into_parts();
        let mut received = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk.unwrap();
            body.flow_control().release_capacity(chunk.len()).unwrap();
            received.extend_from_slice(&chunk);
        }
        let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
        let text = |name| trailers.get(name).map_or("", |value| value.to_str().unwrap());
        let message = if received.is_empty() { received } else { received.split_off(5) };
        Self {
            status: text("grpc-status").parse().unwrap(),
            text: text("grpc-message").to_owned(),
            message: message.freeze(),
        }
    }
}

/// A `RateLimitRequest` to be.
#[derive(Clone, Default)]
pub struct Ask {
    pub domain: &'static str,
    pub descriptors: Vec<Described>,
    pub hits: u64,
    pub token: Option<&'static str>,
}

/// A descriptor to be.
#[derive(Clone, Default)]
pub struct Described {
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    pub hits: Option<u64>,
    pub is_negative: bool,
    /// Requests, unit and how many units of a limit that the request brings.
    pub limit: Option<(u64, u64, u64)>,
}

/// A descriptor of these entries.
pub fn described(entries: &[(&str, &[u8])]) -> Described {
    let owned = entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.to_vec()));
    Described { entries: owned.collect(), ..Described::default() }
}

/// One descriptor in domain `shop`.
pub fn shop(entries: &[(&str, &[u8])]) -> Ask {
    Ask { domain: "shop", descriptors: vec![described(entries)], ..Ask::default() }
}

impl Ask {
    pub fn hits(mut self, hits: u64) -> Self {
        self.descriptors[0].hits = Some(hits);
        self
    }

    pub fn refund(mut self, hits: u64, token: Option<&'static str>) -> Self {
        self.descriptors[0].is_negative = true;
        self.token = token;
        self.hits(hits)
    }

    pub fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        put_bytes(&mut out, 1, self.domain.as_bytes());
        for descriptor in &self.descriptors {
            put_message(&mut out, 2, |one| {
                for (key, value) in &descriptor.entries {
                    put_message(one, 1, |entry| {
                        put_bytes(entry, 1, key);
                        put_bytes(entry, 2, value);
                    });
                }
                if let Some((requests, unit, multiplier)) = descriptor.limit {
                    put_message(one, 2, |limit| {
                        put_number(limit, 1, requests);
                        put_number(limit, 2, unit);
                        if multiplier != 1 {
                            put_message(limit, 3, |wrapper| put_number(wrapper, 1, multiplier));
                        }
                    });
                }
                if let Some(hits) = descriptor.hits {
                    put_message(one, 3, |wrapper| put_number(wrapper, 1, hits));
                }
                put_number(one, 4, u64::from(descriptor.is_negative));
            });
        }
        put_number(&mut out, 3, self.hits);
        out
    }
}

/// A `RateLimitResponse`, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub code: u64,
    pub statuses: Vec<ToldStatus>,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub metadata: Vec<(String, String)>,
}

/// A `DescriptorStatus`, read. Numbers that are absent are 0, as the protocol has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ToldStatus {
    pub code: u64,
    /// Requests per unit, unit, name, multiplier.
    pub limit: Option<(u64, u64, String, u64)>,
    pub remaining: u64,
    pub reset_s: Option<u64>,
}

fn fields(message: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    Fields::new(message).map(|field| field.expect("a message"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Field 1 of a message, a number.
fn first(message: &[u8]) -> u64 {
    let number = |field| if let (1, Value::Varint(number)) = field { Some(number) } else { None };
    fields(message).find_map(number).unwrap_or_default()
}

impl Told {
    pub fn decode(message: &[u8]) -> Self {
        let mut told = Self::default();
        for field in fields(message) {
            match field {
                (1, Value::Varint(code)) => told.code = code,
                (2, Value::Bytes(status)) => told.statuses.push(ToldStatus::decode(status)),
                (3, Value::Bytes(header)) => told.headers.push(pair(header)),
                (5, Value::Bytes(body)) => told.body = text(body),
                (6, Value::Bytes(metadata)) => {
                    for (_, entry) in fields(metadata) {
                        let Value::Bytes(entry) = entry else { panic!("an entry") };
                        told.metadata.push(pair(entry));
                    }
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        told
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Key and value; of a `google.protobuf.Value` its text, or 0 or 1 for a bool.
fn pair(message: &[u8]) -> (String, String) {
    let mut pair = (String::new(), String::new());
    for field in fields(message) {
        match field {
            (1, Value::Bytes(key)) => pair.0 = text(key),
            (2, Value::Bytes(value)) => {
                pair.1 = match Fields::new(value).next() {
                    Some(Ok((3, Value::Bytes(inner)))) => text(inner),
                    Some(Ok((4, Value::Varint(flag)))) => flag.to_string(),
                    _ => text(value),
                };
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    pair
}

impl ToldStatus {
    fn decode(message: &[u8]) -> Self {
        let mut status = Self::default();
        for field in fields(message) {
            match field {
                (1, Value::Varint(code)) => status.code = code,
                (2, Value::Bytes(limit)) => {
                    let mut told = (0, 0, String::new(), 0);
                    for field in fields(limit) {
                        match field {
                            (1, Value::Varint(number)) => told.0 = number,
                            (2, Value::Varint(unit)) => told.1 = unit,
                            (3, Value::Bytes(name)) => told.2 = text(name),
                            (4, Value::Bytes(wrapper)) => told.3 = first(wrapper),
                            other => panic!("unexpected {other:?}"),
                        }
                    }
                    status.limit = Some(told);
                }
                (3, Value::Varint(remaining)) => status.remaining = remaining,
                (4, Value::Bytes(duration)) => status.reset_s = Some(first(duration)),
                other => panic!("unexpected {other:?}"),
            }
        }
        status
    }
}
