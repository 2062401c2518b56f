//! When jobs run, and the file they live in.

mod clocks;
mod grammar;
mod jobs;
mod reading;
mod scanning;
mod screening;
mod support;
mod targets;
