//! Environment variables that turn something on or off.

use std::ffi::OsString;

/// Makes a row's result independent of the rows beside it.
pub const INVARIANT: Switch = Switch { variable: "OCTILE_BATCH_INVARIANT", default: false };

/// A variable that is on, off or not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub variable: &'static str,
    /// What an empty variable means, or none.
    pub default: bool,
}

/// A variable with a value that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is '{}': set it to on or off, or remove it", value.to_string_lossy())]
pub struct UnknownSwitch {
    variable: &'static str,
    value: OsString,
}

impl Switch {
    /// Whether it is on in this process.
    pub fn is_on(&self) -> Result<bool, UnknownSwitch> {
        self.read(std::env::var_os(self.variable))
    }

    fn read(&self, value: Option<OsString>) -> Result<bool, UnknownSwitch> {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(self.default) };
        let is_one_of = |words: [&str; 4]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
        match (is_one_of(["on", "1", "yes", "true"]), is_one_of(["off", "0", "no", "false"])) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(UnknownSwitch { variable: self.variable, value }),
        }
    }
}

/// Rejects values of the variables that mean nothing. The library takes the cautious side instead: default
/// plans on GPUs, and an error where a CPU is opened.
pub fn require_known() -> Result<(), UnknownSwitch> {
    [crate::tuned::SWITCH, INVARIANT].iter().try_for_each(|switch| switch.is_on().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_on_or_off_and_others_an_error() {
        let read = |value: &str| INVARIANT.read(Some(value.into()));
        for (on, off) in [("on", "off"), ("1", "0"), ("YES", "No"), ("true", "false")] {
            assert_eq!((read(on), read(off)), (Ok(true), Ok(false)));
        }
        assert_eq!((read(""), INVARIANT.read(None)), (Ok(false), Ok(false)));
        assert_eq!(crate::tuned::SWITCH.read(None), Ok(true));
        assert_eq!(
            read("ture").unwrap_err().to_string(),
            "OCTILE_BATCH_INVARIANT is 'ture': set it to on or off, or remove it"
        );
    }
}
