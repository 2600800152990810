//! Do the arguments arrive, by place and by keyword, and may some be missing?

use delayed::{GoTask, PyTask};
use serde::{Deserialize, Serialize};

use crate::run::{Given, Seen, call, payload};

static SEEN: Seen = Seen::new();

/// One test at a time: they look at what the tasks saw.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[derive(Debug, Serialize, Deserialize)]
struct Point {
    x: i64,
    y: i64,
}

const fn seven() -> i64 {
    7
}

mod tasks {
    use super::{Point, SEEN, seven};

    #[delayed::task]
    pub(super) fn nothing() {
        SEEN.add("nothing");
    }

    #[delayed::task]
    pub(super) fn one(a: i64) {
        SEEN.add(a);
    }

    #[delayed::task]
    pub(super) async fn two(a: i64, b: String) {
        SEEN.add((a, b));
    }

    #[delayed::task]
    pub(super) fn optional(
        a: i64,
        b: Option<i64>,
        #[task(default)] c: Vec<i64>,
        #[task(default = seven() * 2)] d: i64,
        e: std::option::Option<String>,
    ) {
        SEEN.add((a, b, c, d, e));
    }

    #[delayed::task]
    pub(super) fn forms(
        id: uuid::Uuid,
        from: std::net::IpAddr,
        peer: Option<std::net::SocketAddr>,
        at: Option<chrono::DateTime<chrono::Utc>>,
        #[task(variadic)] others: Vec<uuid::Uuid>,
    ) {
        SEEN.add((id, from, peer, at, others));
    }

    #[delayed::task]
    pub(super) fn variadic(a: i64, #[task(variadic)] rest: Vec<i64>) {
        SEEN.add((a, rest));
    }

    #[delayed::task]
    pub(super) async fn all(#[task(variadic)] words: Vec<String>) {
        SEEN.add(words);
    }

    #[delayed::task]
    pub(super) fn point(mut point: Point, _times: i64, r#type: String) {
        point.x += 1;
        SEEN.add((point, r#type));
    }

    #[delayed::task]
    #[expect(clippy::too_many_arguments, reason = "the most that there may be")]
    pub(super) fn sixteen(
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
        m: u8,
        n: u8,
        o: u8,
        p: u8,
    ) {
        SEEN.add([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]);
    }
}

#[test]
fn no_argument_is_nothing_or_nil_or_an_empty_array() {
    let _turn = turn();
    for nothing in [&[][..], &[0xc0], &[0x90]] {
        assert_eq!(payload::<tasks::nothing>(nothing), Ok(Ok(())));
    }
    assert_eq!(SEEN.take(), ["\"nothing\""; 3]);
    let refused = payload::<tasks::nothing>(&[0x91, 0x01]).unwrap_err();
    assert!(refused.contains('1'), "{refused}");
}

#[test]
fn one_argument_stands_by_itself_or_in_an_array() {
    let _turn = turn();
    assert_eq!(payload::<tasks::one>(&[0x05]), Ok(Ok(())));
    assert_eq!(payload::<tasks::one>(&[0x91, 0xcd, 0x01, 0x00]), Ok(Ok(())));
    assert_eq!(SEEN.take(), ["5", "256"]);
    let refused = payload::<tasks::one>(&[0xa1, b'x']).unwrap_err();
    assert!(refused.contains("`a`") && refused.contains("i64"), "{refused}");
    assert_eq!(SEEN.take(), [""; 0]);
}

#[test]
fn two_arguments_come_in_an_array_or_by_keyword() {
    let _turn = turn();
    assert_eq!(payload::<tasks::two>(&[0x92, 0x05, 0xa1, b'x']), Ok(Ok(())));
    // ["t", [5], {"b": "x"}], which is a PyTask of Python.
    let python = [0x93, 0xa1, b't', 0x91, 0x05, 0x81, 0xa1, b'b', 0xa1, b'x'];
    assert_eq!(Given::default().run::<tasks::two>(&python), Ok(Ok(())));
    assert_eq!(SEEN.take(), [r#"(5, "x")"#; 2]);
    let unknown = [0x93, 0xa1, b't', 0x91, 0x05, 0x81, 0xa1, b'z', 0xa1, b'x'];
    let refused = Given::default().run::<tasks::two>(&unknown).unwrap_err();
    assert!(refused.contains("`z`"), "{refused}");
    let refused = payload::<tasks::two>(&[0x91, 0x05]).unwrap_err();
    assert!(refused.contains("`b`"), "{refused}");
}

#[test]
fn what_has_a_default_may_be_missing() {
    let _turn = turn();
    assert_eq!(payload::<tasks::optional>(&[0x91, 0x01]), Ok(Ok(())));
    assert_eq!(payload::<tasks::optional>(&[0x92, 0x01, 0xc0]), Ok(Ok(())));
    assert_eq!(payload::<tasks::optional>(&[0x94, 0x01, 0x02, 0x91, 0x03, 0x04]), Ok(Ok(())));
    // ["t", [1], {"d": 4, "e": "x"}]
    let python = [0x93, 0xa1, b't', 0x91, 0x01, 0x82, 0xa1, b'd', 0x04, 0xa1, b'e', 0xa1, b'x'];
    assert_eq!(Given::default().run::<tasks::optional>(&python), Ok(Ok(())));
    assert_eq!(
        SEEN.take(),
        [
            "(1, None, [], 14, None)",
            "(1, None, [], 14, None)",
            "(1, Some(2), [3], 4, None)",
            "(1, None, [], 4, Some(\"x\"))",
        ]
    );
}

#[test]
fn a_type_with_two_forms_is_read_from_both() {
    let _turn = turn();
    let id = uuid::Uuid::from_u128(0x018b_cfe5_687b_7b5c_8a3e_0123_4567_89ab);
    let (from, peer, at) = ("192.0.2.1", "[2001:db8::1]:80", "2023-11-14T22:13:20Z");
    let all = (from.parse().unwrap(), peer.parse().unwrap(), at.parse().unwrap());
    let ours = tasks::forms::call(id, all.0, Some(all.1), Some(all.2), vec![id]);
    assert_eq!(call::<tasks::forms>(&ours), Ok(Ok(())));
    // As Python and Go send them.
    let python = PyTask::new("t:f").arg(id.to_string()).arg(from).kwarg("peer", peer).kwarg("at", at);
    assert_eq!(call::<tasks::forms>(&python.kwarg("others", [id.to_string()]).into()), Ok(Ok(())));
    let moment = delayed::Timestamp::new(1_700_000_000, 0).unwrap();
    let go = GoTask::new("t").arg(serde_bytes::Bytes::new(id.as_bytes()));
    let go = go.arg(serde_bytes::Bytes::new(&[192, 0, 2, 1])).arg(peer).arg(moment).arg([id.to_string()]);
    assert_eq!(call::<tasks::forms>(&go.into()), Ok(Ok(())));
    let seen = format!("{:?}", (id, all.0, Some(all.1), Some(all.2), vec![id]));
    assert_eq!(SEEN.take(), [&*seen; 3]);
    let refused = call::<tasks::forms>(&PyTask::new("t:f").arg("018b").arg(from).into()).unwrap_err();
    assert!(refused.contains("`id`") && refused.contains("Uuid"), "{refused}");
}

#[test]
fn a_variadic_parameter_takes_a_list_or_all_that_is_left() {
    let _turn = turn();
    for arguments in [&[0x91, 0x01][..], &[0x92, 0x01, 0x91, 0x02], &[0x93, 0x01, 0x02, 0x03]] {
        assert_eq!(payload::<tasks::variadic>(arguments), Ok(Ok(())));
    }
    assert_eq!(payload::<tasks::all>(&[0x92, 0xa1, b'a', 0xa1, b'b']), Ok(Ok(())));
    assert_eq!(payload::<tasks::all>(&[0xc0]), Ok(Ok(())));
    assert_eq!(SEEN.take(), ["(1, [])", "(1, [2])", "(1, [2, 3])", r#"["a", "b"]"#, "[]"]);
}

#[test]
fn keywords_are_the_names_without_mut_and_without_raw() {
    let _turn = turn();
    // ["t", [], {"type": "x", "point": {"x": 1, "y": 2}, "_times": 3}]
    let mut python = vec![0x93, 0xa1, b't', 0x90, 0x83, 0xa4];
    python.extend_from_slice(b"type\xa1x\xa5point\x82\xa1x\x01\xa1y\x02\xa6_times\x03");
    assert_eq!(Given::default().run::<tasks::point>(&python), Ok(Ok(())));
    assert_eq!(SEEN.take(), [r#"(Point { x: 2, y: 2 }, "x")"#]);
}

#[test]
fn what_call_writes_is_what_the_task_reads() {
    let _turn = turn();
    assert_eq!(call::<tasks::nothing>(&tasks::nothing::call()), Ok(Ok(())));
    assert_eq!(call::<tasks::one>(&tasks::one::call(-1)), Ok(Ok(())));
    assert_eq!(call::<tasks::two>(&tasks::two::call(1, "x".into())), Ok(Ok(())));
    assert_eq!(call::<tasks::optional>(&tasks::optional::call(1, None, vec![2], 3, None)), Ok(Ok(())));
    assert_eq!(call::<tasks::variadic>(&tasks::variadic::call(1, vec![2, 3])), Ok(Ok(())));
    assert_eq!(call::<tasks::all>(&tasks::all::call(vec!["a".into()])), Ok(Ok(())));
    assert_eq!(call::<tasks::point>(&tasks::point::call(Point { x: 1, y: 2 }, 3, "z".into())), Ok(Ok(())));
    let many = tasks::sixteen::call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    assert_eq!(call::<tasks::sixteen>(&many), Ok(Ok(())));
    assert_eq!(
        SEEN.take(),
        [
            "\"nothing\"",
            "-1",
            r#"(1, "x")"#,
            "(1, None, [2], 3, None)",
            "(1, [2, 3])",
            r#"["a"]"#,
            r#"(Point { x: 2, y: 2 }, "z")"#,
            "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]",
        ]
    );
}

#[test]
fn the_function_is_still_a_function() {
    let _turn = turn();
    tasks::one(3);
    assert_eq!(SEEN.take(), ["3"]);
}
