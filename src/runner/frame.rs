//! What do worker, zygote and child say to each other? One packet each; what cannot be read is no frame.

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
    /// Fork a child that is called so. Beside it: its requests, its reports, its output.
    Fork {
        child: u64,
        /// What lasts as long as the process.
        lasting: Limits,
        reuse: Reuse,
    },
    /// Send a signal to the group of this child.
    Signal { child: u64, signal: i32 },
}

/// How long a child may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reuse {
    /// For how many runs.
    pub(super) runs: u64,
    /// Until it has more anonymous and shared memory than this after a run, in bytes.
    pub(super) memory: Option<u64>,
}

impl Reuse {
    /// For one run.
    pub(super) const ONCE: Self = Self { runs: 1, memory: None };
}

/// From the zygote to the worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum ZygoteEvent {
    /// A child lives.
    Forked { child: u64, pid: i32 },
    /// A child could not be forked, for this error of the system.
    Refused { child: u64, errno: i32 },
    /// A child has ended; all of its group were killed, and its orphans.
    Ended { child: u64, status: Status, used: ResourceUsage },
}

impl ZygoteEvent {
    /// About whom.
    pub(super) fn child(&self) -> u64 {
        match self {
            Self::Forked { child, .. } | Self::Refused { child, .. } | Self::Ended { child, .. } => *child,
        }
    }
}

/// From the worker to a child: run this.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<'a> {
    /// What the report is to say.
    pub(super) run: u64,
    /// The queue that the call came from.
    #[serde(borrow)]
    pub(super) queue: Cow<'a, str>,
    /// Which worker it runs for, and in which of its slots.
    #[serde(borrow)]
    pub(super) worker: Cow<'a, str>,
    pub(super) slot: usize,
    /// What this run may use.
    pub(super) limits: Limits,
    /// After how many milliseconds the run will be asked to end.
    pub(super) timeout_ms: Option<u64>,
    /// How much is logged: 0 nothing, 1 errors … 5 all.
    pub(super) level: u8,
    /// The message; none: it is in the file beside this packet.
    #[serde(borrow)]
    pub(super) message: Option<&'a serde_bytes::Bytes>,
}

/// From a child to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    /// Something was logged.
    Log(Box<LogLine>),
    /// The run says something of its progress.
    Note(Note),
    /// A run with a limit of memory begins, in a process that uses so many bytes before it.
    Began { run: u64, memory: u64 },
    /// The child ends now: it is not as it was before the runs that it has reported. It has begun no other.
    Retired {
        /// What an earlier run has left.
        left: String,
    },
    /// A run has ended.
    Ended {
        run: u64,
        answer: Answer,
        /// The child ends now, and is not to be given another run.
        retires: bool,
        /// A SIGTERM came to it, from whomever.
        asked: bool,
        /// Some of what it wrote was not read yet; behind it stands a mark. Of a child that ends, all is.
        marked: bool,
    },
}

/// What a run came to, as its child tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Succeeded,
    /// It succeeded, and what it returned is kept.
    Returned {
        value: ReturnValue,
    },
    /// The same, where that is in a file beside the packet.
    ReturnedInFile,
    Failed {
        message: String,
        again: RetryWhen,
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
    /// The system has no more of something that it takes to run a task; the task did not run.
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
    /// `name=value`, those of the spans around it first.
    pub(super) fields: String,
}

/// The most bytes of a report: two shortened texts, and the fields around them.
pub(super) const MAX_REPORT: usize = 3 * LONGEST;

/// As it is sent.
pub(super) fn encode(frame: &impl Serialize) -> Vec<u8> {
    // Numbers, texts and bytes: there is nothing in a frame that could not be written.
    rmp_serde::to_vec(frame).unwrap_or_default()
}

/// Reads a frame; none when it is none.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    from_slice(bytes).ok()
}

/// What the bytes are as a request or event of the zygote, and as a request to or report of a child. For fuzzing.
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
