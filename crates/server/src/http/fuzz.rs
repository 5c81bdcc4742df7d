//! Whatever the body is, it is a question or a mistake that is said in a few words.

use super::document::Json;
use super::question::{Form, questions};
use crate::fuzz::run;

#[test]
fn bodies() {
    run("bodies", |input| {
        let document = Json::parse(input);
        assert_eq!(document.is_ok(), Json::parse(input).is_ok());
        match document {
            Ok(document) => {
                for form in [Form::Check, Form::Peek, Form::Reset] {
                    if let Err(mistake) = questions(&document, form) {
                        assert!(mistake.len() < 4096, "{} bytes of mistake", mistake.len());
                    }
                }
            }
            Err(mistake) => assert!(mistake.len() < 4096),
        }
    });
}
