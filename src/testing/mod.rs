#![doc = include_str!("../../docs/testing.md")]

mod frame;
mod place;
mod proxy;
mod relay;
mod requests;

pub use self::proxy::{Fault, Mode, Proxy, Side, Trap};
pub use self::requests::Requests;
