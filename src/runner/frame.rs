//! The messages between worker, zygote and child. Each is one packet; bytes that cannot be decoded are no frame.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::excerpt::LONGEST;
use crate::isolation::Limits;
use crate::protocol::decode::from_slice;
use crate::sys::wait::{ResourceUsage, Status};
use crate::task::RetryWhen;
use crate::task::progress::Note;
use crate::task::return_value::ReturnValue;

/// From the worker to the zygote.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ZygoteRequest {
    /// Fork a child with this number. Its requests, reports and output are passed as descriptors.
    Fork {
        child: u64,
        /// The limits that last as long as the process.
        lasting: Limits,
        reuse: Reuse,
    },
    /// Send a signal to the group of this child.
    Signal { child: u64, signal: i32 },
}

/// How long a child may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reuse {
    /// Maximum number of runs.
    pub(super) runs: u64,
    /// After a run, the child may have at most this much anonymous and shared memory, in bytes.
    pub(super) memory: Option<u64>,
}

impl Reuse {
    /// For a single run.
    pub(super) const ONCE: Self = Self { runs: 1, memory: None };
}

/// From the zygote to the worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum ZygoteEvent {
    /// A child was forked.
    Forked { child: u64, pid: i32 },
    /// A child could not be forked, with this error number.
    Refused { child: u64, errno: i32 },
    /// A child has ended. Its process group and its orphans were killed.
    Ended { child: u64, status: Status, used: ResourceUsage },
}

impl ZygoteEvent {
    /// The child that the event is about.
    pub(super) fn child(&self) -> u64 {
        match self {
            Self::Forked { child, .. } | Self::Refused { child, .. } | Self::Ended { child, .. } => *child,
        }
    }
}

/// From the worker to a child: a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<'a> {
    /// The number for the report.
    pub(super) run: u64,
    /// The queue that the call came from.
    #[serde(borrow)]
    pub(super) queue: Cow<'a, str>,
    /// The worker, and its slot for this run.
    #[serde(borrow)]
    pub(super) worker: Cow<'a, str>,
    pub(super) slot: usize,
    /// The limits of this run.
    pub(super) limits: Limits,
    /// The time in milliseconds after which the run is asked to end.
    pub(super) timeout_ms: Option<u64>,
    /// The log level: 0 nothing, 1 errors … 5 everything.
    pub(super) level: u8,
    /// The message; `None` if it is in the file beside this packet.
    #[serde(borrow)]
    pub(super) message: Option<&'a serde_bytes::Bytes>,
}

/// From a child to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    /// Something was logged.
    Log(Box<LogLine>),
    /// The progress of the run.
    Note(Note),
    /// A run with a memory limit begins, in a process that uses this many bytes before it.
    Began { run: u64, memory: u64 },
    /// The child exits now, because it is not as it was before the runs that it has reported. It has begun no other.
    Retired {
        /// What an earlier run left behind.
        left: String,
    },
    /// A run has ended.
    Ended {
        run: u64,
        answer: Answer,
        /// The child exits now and must not get another run.
        retires: bool,
        /// The child received a SIGTERM, from any sender.
        asked: bool,
        /// Some of its output was not read yet, and is followed by a mark. If the child exits, all of its output is read.
        marked: bool,
    },
}

/// The result of a run, as its child reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Succeeded,
    /// The run succeeded and returned a value that is kept.
    Returned {
        value: ReturnValue,
    },
    /// The answer is in a file beside the packet.
    InFile,
    Failed {
        message: String,
        again: RetryWhen,
    },
    /// Some items of a batch failed.
    ItemsFailed {
        message: String,
        /// How many items there were.
        of: u32,
        /// Their places, and the text and the next attempt of each.
        items: Vec<(u32, String, RetryWhen)>,
    },
    Panicked {
        message: String,
    },
    Arguments {
        problem: String,
    },
    Malformed {
        problem: String,
    },
    Unknown,
    /// A limit could not be set; the task did not run.
    Refused {
        problem: String,
    },
    /// The system lacks a resource that running a task requires; the task did not run.
    Short {
        problem: String,
    },
}

/// An event of `tracing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogLine {
    /// 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub(super) level: u8,
    pub(super) target: String,
    pub(super) message: String,
    /// `name=value` pairs, starting with those of the surrounding spans.
    pub(super) fields: String,
}

/// Maximum size of a report in bytes: two shortened texts, and the fields around them.
pub(super) const MAX_REPORT: usize = 3 * LONGEST;

/// Encodes a frame.
pub(super) fn encode(frame: &impl Serialize) -> Vec<u8> {
    // Cannot fail: a frame consists of numbers, texts and bytes.
    rmp_serde::to_vec(frame).unwrap_or_default()
}

/// Decodes a frame; `None` if it is malformed.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    from_slice(bytes).ok()
}

/// Decodes the bytes as each kind of frame, for fuzzing.
#[cfg(feature = "testing")]
pub fn read_frames(bytes: &[u8]) -> [Option<(String, Vec<u8>)>; 4] {
    fn read<'a, T: Deserialize<'a> + Serialize + std::fmt::Debug>(
        bytes: &'a [u8],
    ) -> Option<(String, Vec<u8>)> {
        decode::<T>(bytes).map(|frame| (format!("{frame:?}"), encode(&frame)))
    }
    [
        read::<ZygoteRequest>(bytes),
        read::<ZygoteEvent>(bytes),
        read::<Request<'_>>(bytes),
        read::<Report>(bytes),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line() -> LogLine {
        LogLine { level: 3, target: "app::mail".into(), message: "sent".into(), fields: "to=ann".into() }
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let reports = [
            Report::Log(Box::new(line())),
            Report::Began { run: 7, memory: 1 << 40 },
            Report::Retired { left: "a thread".into() },
            Report::Ended { run: 7, answer: Answer::Succeeded, retires: false, asked: false, marked: false },
            Report::Ended {
                run: u64::MAX,
                answer: Answer::Failed {
                    message: "no".into(),
                    again: RetryWhen::Snoozed(Duration::from_millis(1500)),
                },
                retires: true,
                asked: true,
                marked: true,
            },
        ];
        for report in reports {
            assert_eq!(decode::<Report>(&encode(&report)), Some(report));
        }
        let request = Request {
            run: 1,
            queue: "mail".into(),
            worker: "abcdefghijklmn27".into(),
            slot: 4,
            limits: Limits { memory: Some(1 << 20), ..Limits::NONE },
            timeout_ms: Some(30_000),
            level: 3,
            message: Some(serde_bytes::Bytes::new(b"\x00\xff")),
        };
        let bytes = encode(&request);
        let read: Request<'_> = decode(&bytes).unwrap();
        assert_eq!(
            (read.run, &*read.queue, &*read.worker, read.slot, read.limits, read.timeout_ms),
            (1, "mail", "abcdefghijklmn27", 4, request.limits, Some(30_000))
        );
        assert_eq!(read.message.unwrap().as_ref(), b"\x00\xff");
    }

    #[test]
    fn what_is_no_frame_is_not_read() {
        let good = encode(&Report::Ended {
            run: 7,
            answer: Answer::Unknown,
            retires: false,
            asked: false,
            marked: false,
        });
        for end in 0..good.len() {
            assert_eq!(decode::<Report>(&good[..end]), None, "{end} bytes of it");
        }
        assert_eq!(decode::<Report>(&[&good[..], &[0xc0]].concat()), None, "more than it");
        for bytes in [&b""[..], b"garbage", &[0xc1; 64], &[0x91; 4096], &[0xdf, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decode::<Report>(bytes), None, "{bytes:?}");
        }
    }
}
