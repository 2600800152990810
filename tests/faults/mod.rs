//! Processes that are killed or stopped, a Redis that goes away, a network that cuts and swallows: nothing is lost, and
//! nothing runs more often than it must.

mod burst;
mod bytes;
mod clock;
mod deaths;
mod forgetful;
mod full;
mod full_with_options;
mod killed_worker;
mod large;
mod log;
mod many_lost;
mod network;
mod paused;
mod pick_up;
mod points;
mod poison;
mod redis_down;
mod refused;
mod replies;
mod rights;
mod texts;
mod timetable;
mod waiting;
