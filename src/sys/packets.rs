//! Packets between processes of this library. They keep their boundaries and can carry descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::sys::system;

/// The largest packet in bytes. Larger messages go into a file in memory, whose descriptor is sent with the packet.
pub(crate) const MAX_PACKET: usize = 64 << 10;
/// Maximum number of descriptors in a packet.
const MAX_DESCRIPTORS: usize = 3;

/// A received packet.
pub(crate) struct Packet {
    /// Its length in bytes; 0 means that the other end is closed.
    pub(crate) length: usize,
    /// Whether the packet was larger than the buffer, and so was not sent by this library.
    pub(crate) is_cut: bool,
    /// The descriptors that it carried.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Creates two connected ends. Both are nonblocking; neither is inherited by executed programs.
pub(crate) fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    system::packet_sockets()
}

/// Sends one packet, whole or not at all.
///
/// # Errors
/// `EAGAIN` if there is no room now, `EPIPE` or `ECONNRESET` if the other end is closed.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[RawFd]) -> nix::Result<()> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let rights = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
    loop {
        let sent = sendmsg::<UnixAddr>(
            socket.as_fd().as_raw_fd(),
            &[IoSlice::new(bytes)],
            rights,
            system::NO_SIGNAL,
            None,
        );
        match sent {
            Err(Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Receives one packet into `buffer`. Waits for it on a blocking socket.
///
/// # Errors
/// `EAGAIN` if there is none now and the socket is nonblocking.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> nix::Result<Packet> {
    receive_with(socket, buffer, MsgFlags::empty())
}

/// Receives one packet into `buffer` without waiting.
///
/// # Errors
/// `EAGAIN` if there is none now.
pub(crate) fn receive_now(socket: impl AsFd, buffer: &mut [u8]) -> nix::Result<Packet> {
    receive_with(socket, buffer, MsgFlags::MSG_DONTWAIT)
}

/// Whether there is something to receive, including the end of the connection.
pub(crate) fn is_waiting(socket: impl AsFd) -> bool {
    let mut look = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut look, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[expect(unsafe_code, reason = "received descriptors are made owned ones")]
fn receive_with(socket: impl AsFd, buffer: &mut [u8], flags: MsgFlags) -> nix::Result<Packet> {
    let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    loop {
        let mut into = [IoSliceMut::new(buffer)];
        let received = recvmsg::<UnixAddr>(
            socket.as_fd().as_raw_fd(),
            &mut into,
            Some(&mut space),
            flags | system::CLOSE_ON_EXEC,
        );
        let message = match received {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                // SAFETY: The kernel has just created them for this process, and nothing else knows them.
                descriptors.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let is_cut = message.flags.contains(MsgFlags::MSG_TRUNC);
        return Ok(Packet { length: message.bytes, is_cut, descriptors });
    }
}
