//! What is said first on a new connection, and what its answers mean.

use std::io;

use super::error::{ErrorClass, StoreError};
use super::options::{Address, RedisOptions};
use super::resp::{self, Reply};
use super::scripts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Login,
    /// Whether it is the master that the sentinels took it for.
    Role,
    Database,
    Name,
    EvictionPolicy,
    /// An empty batch: whether the user may call the script and name our keys.
    Script,
}

/// A batch without rules and operations.
const EMPTY_BATCH: &[u8] = &[0, 0];

/// The greeting: all of it in one write, its answers taken in order.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) request: Vec<u8>,
    steps: Vec<Step>,
    at: usize,
    /// What an operator should change.
    pub(super) warnings: Vec<String>,
}

impl Handshake {
    pub(super) fn new(options: &RedisOptions) -> Self {
        let mut request = Vec::new();
        let mut steps = Vec::new();
        let mut say = |step, words: &[&[u8]]| {
            steps.push(step);
            resp::append_command(&mut request, words);
        };
        if let Some(password) = &options.password {
            match &options.user {
                Some(user) => say(Step::Login, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
                None => say(Step::Login, &[b"AUTH", password.as_bytes()]),
            }
        }
        if matches!(options.address, Address::Sentinels(_)) {
            say(Step::Role, &[b"ROLE"]);
        }
        if options.database != 0 {
            let database = options.database.to_string();
            say(Step::Database, &[b"SELECT", database.as_bytes()]);
        }
        say(Step::Name, &[b"CLIENT", b"SETNAME", options.client_name.as_bytes()]);
        say(Step::EvictionPolicy, &[b"CONFIG", b"GET", b"maxmemory-policy"]);
        let hash = scripts::decide(None).hash.as_bytes();
        let key = [options.prefix.as_bytes(), b"{}"].concat();
        say(Step::Script, &[b"EVALSHA", hash, b"1", &key, EMPTY_BATCH]);
        Self { request, steps, at: 0, warnings: Vec::new() }
    }

    /// Takes the next answer; true once it was the last. Name and eviction policy may be refused:
    /// a user with the least rights has neither command.
    pub(super) fn accept(&mut self, reply: &Reply<'_>) -> Result<bool, String> {
        let refused = |answer: &[u8]| Err(StoreError::refused(answer).to_string());
        let step = self.steps.get(self.at).copied();
        self.at += 1;
        match (step, reply) {
            (Some(Step::Login | Step::Database), Reply::Error(answer)) => return refused(answer),
            (Some(_), Reply::Error(answer))
                if ErrorClass::of(answer) == ErrorClass::NotAuthenticated =>
            {
                return refused(answer);
            }
            (Some(Step::Role), Reply::Error(answer))
                if ErrorClass::of(answer) == ErrorClass::NotPermitted =>
            {
                self.warnings.push(format!(
                    "the store's user may not ask for the server's role, so a replica is noticed \
                     only by what it refuses; allow +role: {}",
                    String::from_utf8_lossy(answer)
                ));
            }
            (Some(Step::Role), Reply::Error(answer)) => return refused(answer),
            (Some(Step::Role), reply) => is_master(reply)?,
            (Some(Step::Script), Reply::Error(answer))
                if ErrorClass::of(answer) == ErrorClass::NotPermitted =>
            {
                self.warnings.push(format!(
                    "the store's user lacks rights that every decision needs: {}",
                    String::from_utf8_lossy(answer)
                ));
            }
            (Some(Step::EvictionPolicy), Reply::Array(pair)) => {
                if let [_, Reply::Bulk(Some(policy))] = pair.as_slice()
                    && *policy != b"noeviction"
                {
                    self.warnings.push(format!(
                        "the store's maxmemory-policy is {}: it may evict counters, and a lost \
                         counter allows again; set it to noeviction",
                        String::from_utf8_lossy(policy)
                    ));
                }
            }
            _ => {}
        }
        Ok(self.at >= self.steps.len())
    }
}

fn is_master(reply: &Reply<'_>) -> Result<(), String> {
    let role = match reply {
        Reply::Array(items) => items.first(),
        _ => None,
    };
    match role {
        Some(Reply::Bulk(Some(b"master"))) => Ok(()),
        Some(Reply::Bulk(Some(role))) => Err(format!(
            "it is no master but a {}: the sentinels are about to change that, or are behind",
            String::from_utf8_lossy(role)
        )),
        _ => Err("it does not say its role".to_owned()),
    }
}

/// Why the server may have closed the connection after these bytes, which are no whole answer;
/// and after answers, or without any.
pub(super) fn closed(has_answered: bool, is_tls: bool, answer: &[u8]) -> String {
    if !answer.is_empty() {
        return not_resp(answer);
    }
    let hint = match (has_answered, is_tls) {
        (true, _) => "",
        (false, false) => " before its first answer; where it speaks TLS, use rediss://",
        (false, true) => {
            " before its first answer; it may demand another client certificate (ssl_certfile, \
             ssl_keyfile)"
        }
    };
    format!("closed by the server{hint}")
}

/// True if a read found that the server is gone.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Why an answer that is none of this protocol's is there. A TLS alert begins with a 21.
pub(super) fn not_resp(answer: &[u8]) -> String {
    match answer {
        [21, 3, ..] => "the server speaks TLS; use rediss://",
        _ => "this is no Redis server",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> RedisOptions {
        RedisOptions::parse(url).unwrap()
    }

    #[test]
    fn only_what_the_options_need_is_said() {
        let plain = Handshake::new(&options("redis://x"));
        assert_eq!(plain.steps, [Step::Name, Step::EvictionPolicy, Step::Script]);
        let full = Handshake::new(&options("redis://a:b@x/2"));
        assert_eq!(full.steps[..2], [Step::Login, Step::Database]);
        assert_eq!(full.steps[2..], plain.steps);
        assert!(full.request.starts_with(b"*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n"));
    }

    #[test]
    fn whom_sentinels_named_must_be_a_master() {
        let role = |word| Reply::Array(vec![Reply::Bulk(Some(word)), Reply::Integer(0)]);
        let new = || Handshake::new(&options("redis+sentinel://x/main"));
        assert_eq!(new().accept(&role(b"master")), Ok(false));
        assert!(new().accept(&role(b"slave")).unwrap_err().contains("no master but a slave"));
        assert!(new().accept(&Reply::Error(b"LOADING x")).is_err());
        let mut unsure = new();
        assert_eq!(unsure.accept(&Reply::Error(b"NOPERM no")), Ok(false));
        assert!(unsure.warnings[0].contains("+role"));
    }

    #[test]
    fn a_user_with_the_least_rights_is_welcome_and_a_wrong_password_is_not() {
        let mut handshake = Handshake::new(&options("redis://x"));
        let refusal = Reply::Error(b"NOPERM User app has no permissions");
        assert_eq!(handshake.accept(&refusal), Ok(false));
        assert_eq!(handshake.accept(&refusal), Ok(false));
        assert_eq!(handshake.warnings.len(), 0);
        assert_eq!(handshake.accept(&refusal), Ok(true));
        assert!(handshake.warnings[0].contains("NOPERM"));
        let mut handshake = Handshake::new(&options("redis://:b@x"));
        assert!(handshake.accept(&Reply::Error(b"WRONGPASS no")).is_err());
        let mut handshake = Handshake::new(&options("redis://x"));
        assert!(handshake.accept(&Reply::Error(b"NOAUTH Authentication required.")).is_err());
    }

    #[test]
    fn a_store_that_evicts_is_warned_of() {
        for (policy, count) in [(&b"noeviction"[..], 0), (b"allkeys-lru", 1)] {
            let mut handshake = Handshake::new(&options("redis://x"));
            let pair = vec![Reply::Bulk(Some(b"maxmemory-policy")), Reply::Bulk(Some(policy))];
            assert_eq!(handshake.accept(&Reply::Simple(b"OK")), Ok(false));
            assert_eq!(handshake.accept(&Reply::Array(pair)), Ok(false));
            assert_eq!(handshake.accept(&Reply::Error(b"NOSCRIPT No matching")), Ok(true));
            assert_eq!(handshake.warnings.len(), count);
        }
    }
}
