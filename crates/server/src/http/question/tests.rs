//! Bodies and what is said of them.

use super::*;

fn ask(body: &str, form: Form) -> Result<(Verb, Vec<(String, u64)>), String> {
    let document = Json::parse(body.as_bytes())?;
    let Questions::One(question) = questions(&document, form)? else { panic!("one question") };
    let kind = |(kind, cost): &(&[u8], u64)| (String::from_utf8_lossy(kind).into_owned(), *cost);
    Ok((question.verb, question.costs.iter().map(kind).collect()))
}

fn check(rest: &str) -> Result<(Verb, Vec<(String, u64)>), String> {
    ask(&format!(r#"{{"domain":"shop","descriptors":[{{"tenant":"a"}}]{rest}}}"#), Form::Check)
}

#[test]
fn costs_are_whole_numbers_of_a_kind() {
    let requests = |cost| Ok((Verb::Hit, vec![("requests".to_owned(), cost)]));
    assert_eq!(check(""), requests(1));
    assert_eq!(check(r#","cost":0"#), requests(0));
    assert_eq!(check(r#","cost":3"#), requests(3));
    assert_eq!(check(r#","cost":18446744073709551615"#), requests(1 << 53));
    let kinds = check(r#","cost":{"requests":1,"tokens":900}"#).unwrap().1;
    assert_eq!(kinds, [("requests".to_owned(), 1), ("tokens".to_owned(), 900)]);
}

#[test]
fn other_costs_are_refused_by_name() {
    let cases = [
        ("-1", "cost: must not be negative; to give units back send \"refund\": true"),
        ("1.5", "cost: must be a whole number"),
        ("1e3", "cost: must be a whole number"),
        ("18446744073709551616", "cost: must be a whole number"),
        (r#""1""#, "cost: must be a number, without quotes; got the text \"1\""),
        ("null", "cost: must be a whole number, 0 to look only; got null"),
        ("true", "cost: must be a whole number"),
        ("[]", "cost: must be a whole number"),
        ("{}", "cost: is empty"),
        (r#"{"tokens":-2}"#, "cost.tokens: must not be negative"),
    ];
    for (cost, expected) in cases {
        let error = check(&format!(r#","cost":{cost}"#)).unwrap_err();
        assert!(error.starts_with(expected), "{cost}: {error}");
    }
}

#[test]
fn refunds_are_asked_for_by_name() {
    assert_eq!(check(r#","refund":true,"cost":2"#).unwrap().0, Verb::Refund);
    assert_eq!(check(r#","refund":false"#).unwrap().0, Verb::Hit);
    assert!(check(r#","refund":"yes""#).unwrap_err().starts_with("refund: must be true or false"));
    let body = r#"{"domain":"shop","descriptors":[{}],"refund":true}"#;
    assert!(ask(body, Form::Peek).unwrap_err().starts_with("refund: no such field here"));
}

#[test]
fn members_are_named_where_they_are_wrong() {
    let cases = [
        ("[]", "the body: must be an object; got a list"),
        ("{}", "domain: is missing"),
        (r#"{"domain":""}"#, "domain: must be a domain's name"),
        (r#"{"domain":1}"#, "domain: must be a domain's name; got the number 1"),
        (r#"{"domain":"a"}"#, "descriptors: is missing"),
        (r#"{"domain":"a","descriptors":[]}"#, "descriptors: is empty"),
        (r#"{"domain":"a","descriptors":{}}"#, "descriptors: got an object"),
        (r#"{"domain":"a","descriptors":[1]}"#, "descriptors[0]: must be an object"),
        (
            r#"{"domain":"a","descriptors":[{},{"id":123}]}"#,
            "descriptors[1].id: must be a text as written; send \"123\"",
        ),
        (r#"{"domain":"a","descriptors":[{"id":true}]}"#, "descriptors[0].id: must be a text"),
        (
            r#"{"domain":"a","descriptor":[{}]}"#,
            "descriptor: no such field here; did you mean \"descriptors\"?",
        ),
        (r#"{"checks":[],"domain":"a"}"#, "domain: no such field here; there are checks"),
        (r#"{"checks":[]}"#, "checks: must be 1 to 1000 objects; got 0"),
        (r#"{"checks":{}}"#, "checks: must be a list"),
        (
            r#"{"checks":[{"domain":"a","descriptors":[{}]},{"domain":"a","cots":1}]}"#,
            "checks[1].cots: no such field here; did you mean \"cost\"?",
        ),
    ];
    for (body, expected) in cases {
        let error = ask(body, Form::Check).unwrap_err();
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}

#[test]
fn descriptors_are_bounded() {
    let many = vec!["{}"; 1001].join(",");
    let body = format!(r#"{{"domain":"shop","descriptors":[{many}]}}"#);
    let error = ask(&body, Form::Check).unwrap_err();
    assert!(error.starts_with("descriptors: 1001; at most 1000"), "{error}");
}

#[test]
fn reset_takes_no_cost() {
    let body = r#"{"domain":"shop","descriptors":[{}],"cost":1}"#;
    assert!(ask(body, Form::Reset).unwrap_err().starts_with("cost: no such field here"));
}
