//! Where is the master? What a sentinel is asked, and what its answers mean.

use super::Sentinels;
use crate::redis::options::Address;
use crate::redis::resp::{self, Reply};

/// All of it in one write, its answers taken in order.
#[derive(Debug)]
pub(in crate::redis) struct Question<'s> {
    pub(in crate::redis) request: Vec<u8>,
    service: &'s str,
    awaits_login: bool,
}

impl<'s> Question<'s> {
    pub(in crate::redis) fn new(sentinels: &'s Sentinels) -> Self {
        let mut request = Vec::new();
        if let Some(password) = &sentinels.password {
            let login =
                [b"AUTH", sentinels.user.as_deref().unwrap_or("").as_bytes(), password.as_bytes()];
            match &sentinels.user {
                Some(_) => resp::append_command(&mut request, &login),
                None => resp::append_command(&mut request, &[login[0], login[2]]),
            }
        }
        let service = &sentinels.service;
        let words = [&b"SENTINEL"[..], b"GET-MASTER-ADDR-BY-NAME", service.as_bytes()];
        resp::append_command(&mut request, &words);
        Self { request, service, awaits_login: sentinels.password.is_some() }
    }

    /// Takes the next answer; the last one is where the master is.
    pub(in crate::redis) fn accept(
        &mut self,
        reply: &Reply<'_>,
    ) -> Result<Option<Address>, String> {
        if let Reply::Error(answer) = reply {
            let words = String::from_utf8_lossy(answer);
            let fix = match &*words {
                words if words.starts_with("WRONGPASS") || words.starts_with("NOAUTH") => {
                    "; a sentinel's own login is sentinel_username and sentinel_password"
                }
                words if words.contains("unknown command") => "; this is no sentinel's port",
                _ => "",
            };
            return Err(format!("the sentinel refused: {words}{fix}"));
        }
        if std::mem::take(&mut self.awaits_login) {
            return Ok(None);
        }
        let Reply::Array(items) = reply else {
            return Err("the sentinel's answer does not have the expected form".to_owned());
        };
        let [Reply::Bulk(Some(host)), Reply::Bulk(Some(port))] = items.as_slice() else {
            return Err(format!(
                "the sentinel knows no service {:?}; take the name from its `sentinel monitor` line",
                self.service
            ));
        };
        let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
        let port = port.ok_or("the sentinel's answer names no port")?;
        Ok(Some(Address::Tcp(String::from_utf8_lossy(host).into_owned(), port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisOptions;

    fn sentinels(url: &str) -> Sentinels {
        let Address::Sentinels(sentinels) = RedisOptions::parse(url).unwrap().address else {
            panic!("no sentinels")
        };
        sentinels
    }

    #[test]
    fn the_master_is_asked_for_by_name_after_the_sentinels_own_login() {
        let plain = sentinels("redis+sentinel://u:p@h/main");
        let question = Question::new(&plain);
        assert!(question.request.starts_with(b"*3\r\n$8\r\nSENTINEL\r\n"));
        let locked = sentinels("redis+sentinel://h/main?sentinel_username=a&sentinel_password=b");
        let mut question = Question::new(&locked);
        assert!(question.request.starts_with(b"*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n*3"));
        assert_eq!(question.accept(&Reply::Simple(b"OK")), Ok(None));
        let place = vec![Reply::Bulk(Some(b"::1")), Reply::Bulk(Some(b"7000"))];
        let master = Address::Tcp("::1".into(), 7000);
        assert_eq!(question.accept(&Reply::Array(place)), Ok(Some(master)));
        assert!(!format!("{locked:?}").contains("\"b\""));
    }

    #[test]
    fn an_answer_without_a_master_says_what_to_do() {
        let sentinels = sentinels("redis+sentinel://h/main");
        for (reply, words) in [
            (Reply::Array(vec![]), "no service \"main\""),
            (Reply::Error(b"ERR unknown command 'SENTINEL'"), "no sentinel's port"),
            (Reply::Error(b"NOAUTH Authentication required."), "sentinel_password"),
            (Reply::Integer(1), "expected form"),
        ] {
            let said = Question::new(&sentinels).accept(&reply).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
