//! Questions built once, handed out in no order.

use tidegate_load::template::fill;

/// All questions as they go on the wire.
#[derive(Debug)]
pub struct Questions {
    all: Vec<Vec<u8>>,
    random: u64,
}

impl Questions {
    /// One for each key: `{i}` in the body is its number, `{i%N}` that modulo N.
    pub fn build(path: &str, host: &str, body: &str, keys: usize) -> Result<Self, String> {
        let one = |index| {
            let body = fill(body, index)?;
            let length = body.len();
            let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n");
            let kind = "content-type: application/json\r\n";
            Ok(format!("{head}{kind}content-length: {length}\r\n\r\n{body}").into_bytes())
        };
        let all = (0..keys.max(1)).map(one).collect::<Result<_, String>>()?;
        Ok(Self { all, random: 0x9e37_79b9_7f4a_7c15 })
    }

    /// The next one; the same in each run.
    pub fn next(&mut self) -> &[u8] {
        // Xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        &self.all[(self.random % self.all.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_its_length_and_its_key() {
        let body = r#"{"domain":"d","descriptors":[{"k":"{i}"}]}"#;
        let mut questions = Questions::build("/v1/check", "h:1", body, 1).unwrap();
        let text = String::from_utf8(questions.next().to_vec()).unwrap();
        assert!(text.starts_with("POST /v1/check HTTP/1.1\r\nhost: h:1\r\n"), "{text}");
        assert!(text.contains("content-length: 40\r\n\r\n{\"domain\""), "{text}");
        assert!(text.ends_with(r#"{"k":"0"}]}"#), "{text}");
    }
}
