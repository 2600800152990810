//! Parses replies of Redis (RESP2), one after the other, from the bytes received so far.

use redis::{ErrorKind, RedisError, RedisResult, Value};

/// The longest line of a reply: its type, and a number or the text of an error.
const LONGEST_LINE: usize = 64 << 10;
/// The deepest nesting of arrays in a reply.
const DEEPEST: usize = 8;

/// The first reply in these bytes and its length; `None` if it is incomplete.
pub(super) fn first(bytes: &[u8]) -> RedisResult<Option<(Value, usize)>> {
    at_depth(bytes, 0)
}

/// Not a reply, or an unsolicited one.
pub(super) fn no_reply() -> RedisError {
    (ErrorKind::Parse, "this is not a reply of Redis").into()
}

fn at_depth(bytes: &[u8], depth: usize) -> RedisResult<Option<(Value, usize)>> {
    let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|two| two == b"\r\n") else {
        return if bytes.len() > LONGEST_LINE { Err(no_reply()) } else { Ok(None) };
    };
    let mut length = end + 2;
    let number = || {
        let digits = str::from_utf8(&bytes[1..end]).ok()?;
        digits.parse::<i64>().ok()
    };
    // A length of -1 stands for a null value.
    let size = || match number() {
        Some(-1) => Ok(None),
        number => number.and_then(|number| usize::try_from(number).ok()).map(Some).ok_or_else(no_reply),
    };
    let value = match bytes[0] {
        b':' => Value::Int(number().ok_or_else(no_reply)?),
        b'$' => match size()? {
            None => Value::Nil,
            Some(size) => {
                let Some((text, behind)) = bytes[length..].split_at_checked(size) else { return Ok(None) };
                match behind {
                    [b'\r', b'\n', ..] => {}
                    [] | [b'\r'] => return Ok(None),
                    _ => return Err(no_reply()),
                }
                length += size + 2;
                Value::BulkString(text.to_vec())
            }
        },
        b'*' => match size()? {
            None => Value::Nil,
            Some(_) if depth == DEEPEST => return Err(no_reply()),
            Some(count) => {
                let mut values = Vec::new();
                for _ in 0..count {
                    let Some((value, more)) = at_depth(&bytes[length..], depth + 1)? else {
                        return Ok(None);
                    };
                    values.push(value);
                    length += more;
                }
                Value::Array(values)
            }
        },
        b'+' | b'-' => redis::parse_redis_value(&bytes[..length])?,
        _ => return Err(no_reply()),
    };
    Ok(Some((value, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_when_it_is_whole() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let text = b"*5\r\n$3\r\na\r\n\r\n*0\r\n:-7\r\n+OK\r\n$-1\r\n";
        for cut in 0..text.len() {
            assert_eq!(first(&text[..cut]).expect("a begin"), None, "of {cut} bytes");
        }
        let values = vec![bulk("a\r\n"), Value::Array(vec![]), Value::Int(-7), Value::Okay, Value::Nil];
        let read = first(&[&text[..], b":8"].concat()).expect("a reply");
        assert_eq!(read, Some((Value::Array(values), text.len())));
        assert_eq!(first(b"*-1\r\n").expect("a reply"), Some((Value::Nil, 5)));
        let (error, _) = first(b"-STALE it is not the next\r\n").expect("a reply").expect("it is whole");
        assert_eq!(error.extract_error().expect_err("an error").code(), Some("STALE"));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let (deep, line) = ("*1\r\n".repeat(DEEPEST + 1), "x".repeat(LONGEST_LINE + 1));
        let wrong = [
            "x\r\n",
            "\r\n",
            ":\r\n",
            ":1x\r\n",
            "$\r\n",
            "$1\r\nabc",
            "$1\r\na\rb",
            "$-7\r\n",
            "*x\r\n",
            "%1\r\n",
            "_\r\n",
        ];
        for wrong in wrong.into_iter().chain([&deep[..], &line]) {
            let error = first(wrong.as_bytes()).expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::Parse, "{wrong:.40}");
        }
    }
}
