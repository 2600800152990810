//! Asks the terminal of this process how wide it is.

/// How many characters a line of the terminal has to which this process prints; none where it prints to something else, or
/// that does not say.
#[expect(unsafe_code, reason = "ioctl")]
pub(crate) fn terminal_width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes a `winsize`, and `size` lives through the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col)
}
