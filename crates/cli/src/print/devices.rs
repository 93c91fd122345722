//! `octile devices` as text.

use std::fmt::Write;

use super::{emit, heading};
use crate::command::devices::{Device, State};

/// Prints the table of devices.
pub fn report(devices: &[Device]) {
    emit(&text(devices));
}

fn text(devices: &[Device]) -> String {
    let mut text = heading("Devices");
    for Device { name, state } in devices {
        let (mark, detail) = match state {
            State::Ready(detail) => ("ready", detail),
            State::Missing(need) => ("missing", need),
        };
        let _ = writeln!(text, "{name:<20} {mark:<8} {detail}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_and_missing() {
        let device = |name: &str, state| Device { name: name.to_owned(), state };
        insta::assert_snapshot!(text(&[
            device("cpu", State::Ready("a processor, 2 threads".into())),
            device("gpu", State::Missing("needs a GPU".into())),
        ]));
    }
}
