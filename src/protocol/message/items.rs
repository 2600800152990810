//! The items of a batch: the elements of the list that is the only argument of its call.

use super::{EMPTY_MAP, Form, Message};
use crate::protocol::decode::{Head, Reader};
use crate::protocol::encode;
use crate::protocol::meta;

impl<'a> Message<'a> {
    /// The items, encoded. `None` if the only argument is not a list.
    pub(crate) fn items(&self) -> Option<Vec<&'a [u8]>> {
        let list = match self.keywords {
            None => self.payload,
            Some(EMPTY_MAP) => match elements(self.payload)?[..] {
                [list] => list,
                _ => return None,
            },
            Some(keywords) if elements(self.payload).is_none_or(|places| places.is_empty()) => {
                only_value(keywords)?
            }
            Some(_) => return None,
        };
        elements(list)
    }

    /// The bytes of the same message with one item alone, without an id: other items would share it.
    pub(crate) fn with_item(&self, item: &[u8]) -> Vec<u8> {
        let payload = [&[0x91], item].concat();
        let retry = self.retry.filter(|_| self.form == Form::Python).map(encode::signed_integer);
        let retry = retry.as_ref().map(|retry| (meta::RETRY, retry.as_slice()));
        encode::frame(
            self.task,
            &payload,
            retry.into_iter().chain(self.meta.without(&[b"i", b"k"])).collect(),
        )
    }
}

fn elements(list: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = Reader::new(list);
    let Ok(Head::Array(count)) = reader.head() else { return None };
    let elements: Option<Vec<&[u8]>> = (0..count).map(|_| reader.value().ok()).collect();
    elements.filter(|_| reader.rest.is_empty())
}

/// The value of a map with one key.
fn only_value(map: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(map);
    let Ok(Head::Map(1)) = reader.head() else { return None };
    let (_, value) = (reader.value().ok()?, reader.value().ok()?);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Meta, native, py_task};

    #[test]
    fn each_item_becomes_a_message_of_its_own() {
        let meta = Meta { timeout_ms: Some(5), ..Meta::default() };
        let by_place = Meta { by_place: true, ..meta };
        let with_id = Meta { id: Some(crate::protocol::call_id::CallId::new()), ..meta };
        let cases = [
            (native("f", b"\x92\xa1a\xa1b", &with_id), native("f", b"\x91\xa1b", &meta)),
            (
                py_task("f", b"", b"\x81\xa5items\x92\xa1a\xa1b", 0),
                native("f", b"\x91\xa1b", &Meta::default()),
            ),
            (native("f", b"\x92\xa1a\xa1b", &Meta::default()), native("f", b"\x91\xa1b", &Meta::default())),
            (native("f", b"\x92\xa1a\xa1b", &meta), native("f", b"\x91\xa1b", &meta)),
            (native("f", b"\x91\x92\xa1a\xa1b", &by_place), native("f", b"\x91\xa1b", &meta)),
            (
                py_task("f", b"\x91\x92\xa1a\xa1b", b"", 3),
                native("f", b"\x91\xa1b", &Meta { retry: Some(3), ..Meta::default() }),
            ),
        ];
        for (message, expected) in cases {
            let message = Message::decode(&message).unwrap();
            let items = message.items().unwrap();
            assert_eq!(items, [b"\xa1a", b"\xa1b"]);
            assert_eq!(message.with_item(items[1]), expected);
        }
    }

    #[test]
    fn what_is_not_one_list_has_no_items() {
        let by_both = py_task("f", b"\x91\x90", b"\x81\xa5items\x91\x05", 0);
        let two = py_task("f", b"\x92\x90\x90", b"", 0);
        for message in [native("f", b"\x05", &Meta::default()), b"\xa1f".to_vec(), by_both, two] {
            assert_eq!(Message::decode(&message).unwrap().items(), None);
        }
    }
}
