//! A network that fails: a proxy between a program and its Redis.

mod frame;
mod place;
mod proxy;
mod relay;
mod requests;

pub use self::proxy::{Fault, Mode, Proxy, Side, Trap};
pub use self::requests::Requests;
