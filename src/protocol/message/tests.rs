use super::*;
use crate::protocol::arguments::{Param, Presence};

const ADD: &[Param] = &[
    Param { name: "a", ty: "i64", presence: Presence::Required },
    Param { name: "b", ty: "i64", presence: Presence::Required },
];

fn add(message: &[u8]) -> Result<(i64, i64), String> {
    let message = Message::decode(message).map_err(|error| error.to_string())?;
    let read = || {
        let mut reader = message.arguments().reader(ADD)?;
        let arguments = (reader.required()?, reader.required()?);
        reader.finish().map(|()| arguments)
    };
    read().map_err(|error| error.to_string())
}

#[test]
fn every_form_that_adds_two_numbers() {
    for message in [
        &b"\x92\xa1f\xc4\x03\x92\x01\x02"[..],
        b"\x93\xa1f\xc4\x03\x92\x01\x02\x80",
        b"\x93\xa1f\xc4\x03\x92\x01\x02\xc0",
        b"\x92\xa1f\x92\x01\x02",
        b"\x93\xa1f\x92\x01\x02\xc0",
        b"\x93\xa1f\x91\x01\x81\xa1b\x02",
        b"\x94\xa1f\x90\x82\xa1b\x02\xa1a\x01\x03",
        b"\x93\xa1f\xc0\x82\xa1b\x02\xc4\x01a\x01",
    ] {
        assert_eq!(add(message), Ok((1, 2)), "{message:02x?}");
        let decoded = Message::decode(message).unwrap();
        let retried = decoded.retried();
        assert_eq!(add(&retried), Ok((1, 2)), "{message:02x?} → {retried:02x?}");
        let again = Message::decode(&retried).unwrap();
        assert_eq!((again.form(), again.attempts(), again.retry()), (Form::Native, 1, decoded.retry()));
    }
}
