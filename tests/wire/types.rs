//! Types of serde, of the standard library and of other crates as arguments: what is written for them, and all that they
//! are read from.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use delayed::__private::protocol::arguments::{Arguments, Param, Presence};
use delayed::__private::protocol::encode::Encoder;
use delayed::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::vectors::{bytes, string};

const VECTORS: &str = include_str!("types.json");

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum External {
    Empty,
    One(uuid::Uuid),
    Two(IpAddr, i8),
    Fields { at: chrono::DateTime<chrono::Utc>, from: SocketAddr },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    Empty,
    One(Inner),
    Fields { id: uuid::Uuid, from: SocketAddr, at: chrono::DateTime<chrono::Utc> },
    Plain { at: SystemTime },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "with")]
enum Adjacent {
    Empty,
    One(uuid::Uuid),
    Two(IpAddr, i8),
    Fields { at: chrono::DateTime<chrono::Utc>, from: SocketAddr },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Id(uuid::Uuid),
    From(IpAddr),
    Port(SocketAddr),
    At(chrono::DateTime<chrono::Utc>),
    Number(f64),
    Inner(Inner),
    Fields { name: String, ips: Vec<IpAddr> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Inner {
    id: uuid::Uuid,
    from: IpAddr,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    n: u8,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    rest: BTreeMap<String, Json>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FlatEnum {
    n: u8,
    #[serde(flatten)]
    shape: Internal,
}

const PARAMS: &[Param] = &[Param { name: "value", ty: "T", presence: Presence::Required }];
const TWO: &[Param] = &[PARAMS[0], PARAMS[0]];

/// Reads one argument by itself, and as an element of an array.
fn read<T: DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Result<T, String> {
    let read = |payload: &[u8]| {
        let mut reader =
            Arguments::from_payload(payload).reader(PARAMS).map_err(|error| error.to_string())?;
        let value = reader.required::<T>().map_err(|error| error.to_string())?;
        reader.finish().map_err(|error| error.to_string()).map(|()| value)
    };
    let value = read(bytes)?;
    assert_eq!(read(&[&[0x91], bytes].concat()).as_ref(), Ok(&value), "expected the same in an array");
    let both = [&[0x92], bytes, bytes].concat();
    let mut reader = Arguments::from_payload(&both).reader(TWO).unwrap();
    for _ in TWO {
        assert_eq!(reader.required::<T>().as_ref(), Ok(&value), "expected the same beside another");
    }
    reader.finish().unwrap();
    Ok(value)
}

fn written<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut encoder = Encoder::new(1);
    encoder.argument("value", value);
    encoder.finish().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(case: &Json) -> Result<(), String> {
    let name = format!("{} {}", case["type"], case["json"]);
    let value: T =
        serde_json::from_value(case["json"].clone()).map_err(|error| format!("{name}: {error}"))?;
    let bytes_written = written(&value);
    if hex(&bytes_written) != case["written"] {
        return Err(format!("{name}: written {}, expected {}", hex(&bytes_written), case["written"]));
    }
    let also = case["also"].as_array().map(Vec::as_slice).unwrap_or_default();
    let forms = also.iter().map(|form| (string(&form["what"]), bytes(&form["hex"])));
    let own = [("what is written".into(), bytes_written)];
    // What a sender of JSON has, such as `enqueue` of the command line.
    let json = (case["json_is_read"] != false).then(|| ("JSON".into(), written(&case["json"])));
    for (what, form) in own.into_iter().chain(json).chain(forms) {
        match read::<T>(&form) {
            Ok(read) if read == value => {}
            Ok(read) => return Err(format!("{name}: {what} ({}) is read as {read:?}", hex(&form))),
            Err(error) => return Err(format!("{name}: {what} ({}): {error}", hex(&form))),
        }
    }
    Ok(())
}

type Check = fn(&Json) -> Result<(), String>;

const TYPES: &[(&str, Check)] = &[
    ("uuid::Uuid", check::<uuid::Uuid>),
    ("Option<uuid::Uuid>", check::<Option<uuid::Uuid>>),
    ("BTreeMap<uuid::Uuid, IpAddr>", check::<BTreeMap<uuid::Uuid, IpAddr>>),
    ("Ipv4Addr", check::<Ipv4Addr>),
    ("Ipv6Addr", check::<Ipv6Addr>),
    ("IpAddr", check::<IpAddr>),
    ("SocketAddr", check::<SocketAddr>),
    ("chrono::DateTime<Utc>", check::<chrono::DateTime<chrono::Utc>>),
    ("chrono::DateTime<FixedOffset>", check::<chrono::DateTime<chrono::FixedOffset>>),
    ("chrono::NaiveDate", check::<chrono::NaiveDate>),
    ("chrono::NaiveDateTime", check::<chrono::NaiveDateTime>),
    ("chrono::TimeDelta", check::<chrono::TimeDelta>),
    ("time::OffsetDateTime", check::<time::OffsetDateTime>),
    ("time::PrimitiveDateTime", check::<time::PrimitiveDateTime>),
    ("time::Date", check::<time::Date>),
    ("time::Duration", check::<time::Duration>),
    ("jiff::Timestamp", check::<jiff::Timestamp>),
    ("jiff::civil::Date", check::<jiff::civil::Date>),
    ("jiff::SignedDuration", check::<jiff::SignedDuration>),
    ("rust_decimal::Decimal", check::<rust_decimal::Decimal>),
    ("url::Url", check::<url::Url>),
    ("PathBuf", check::<PathBuf>),
    ("Duration", check::<Duration>),
    ("SystemTime", check::<SystemTime>),
    ("delayed::Timestamp", check::<Timestamp>),
    ("serde_bytes::ByteBuf", check::<serde_bytes::ByteBuf>),
    ("Vec<u8>", check::<Vec<u8>>),
    ("[u8; 4]", check::<[u8; 4]>),
    ("i128", check::<i128>),
    ("u128", check::<u128>),
    ("External", check::<External>),
    ("Internal", check::<Internal>),
    ("Adjacent", check::<Adjacent>),
    ("Untagged", check::<Untagged>),
    ("Flat", check::<Flat>),
    ("FlatEnum", check::<FlatEnum>),
];

#[test]
fn every_form_of_a_type_is_read_whoever_sent_it() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let name = string(&case["type"]);
            let (_, check) = TYPES.iter().find(|(known, _)| *known == name).expect("a type of the table");
            check(case).err()
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
    for (name, _) in TYPES {
        assert!(cases.iter().any(|case| case["type"] == *name), "expected a vector of {name}");
    }
}

#[test]
fn an_untagged_variant_with_fields_is_read_from_a_map_alone() {
    let value = Untagged::Fields { name: "x".into(), ips: vec![Ipv4Addr::LOCALHOST.into()] };
    // By order it could be any variant with as many fields.
    assert!(read::<Untagged>(&written(&value)).unwrap_err().contains("did not match any variant"));
    let named = serde_json::json!({"name": "x", "ips": ["127.0.0.1"]});
    assert_eq!(read(&written(&named)), Ok(value));
}

#[test]
fn what_json_cannot_hold_is_no_value_of_json() {
    for bytes in [&b"\xcb\x7f\xf8\0\0\0\0\0\0"[..], b"\xca\xff\x80\0\0"] {
        let error = read::<Json>(bytes).unwrap_err();
        assert!(error.contains("got the float"), "{error}");
        let error = read::<BTreeMap<String, Json>>(&[&b"\x81\xa1x\x92\xc0"[..], bytes].concat()).unwrap_err();
        assert!(error.contains("at x[1]: expected a value of JSON"), "{error}");
    }
    assert_eq!(read_once::<Json>(b"\xcb\x3f\xf8\0\0\0\0\0\0"), 1.5);
    assert!(matches!(read_once::<Untagged>(b"\xca\xff\x80\0\0"), Untagged::Number(f64::NEG_INFINITY)));
}

fn read_once<T: DeserializeOwned>(bytes: &[u8]) -> T {
    Arguments::from_payload(bytes).reader(PARAMS).unwrap().required().unwrap()
}
