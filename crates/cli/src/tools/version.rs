//! Version numbers of wheels.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// A version of up to four numbers; missing ones are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolVersion(pub [u32; 4]);

impl FromStr for ToolVersion {
    type Err = ();

    /// Parses the leading numbers, as in `0.0.42.1` and `13.4.92+local`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let release = text.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
        let mut numbers = [0; 4];
        for (number, part) in numbers.iter_mut().zip(release.split('.').filter(|part| !part.is_empty())) {
            *number = part.parse().map_err(drop)?;
        }
        if release.is_empty() { Err(()) } else { Ok(Self(numbers)) }
    }
}

impl fmt::Display for ToolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        let text = if d == 0 { format!("{a}.{b}.{c}") } else { format!("{a}.{b}.{c}.{d}") };
        f.pad(&text)
    }
}

impl Serialize for ToolVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_numbers() {
        let version = |text: &str| text.parse::<ToolVersion>().unwrap();
        assert!(version("0.0.9") < version("0.0.42"));
        assert!(version("0.0.42") < version("0.0.42.1"));
        assert_eq!(version("13.4"), ToolVersion([13, 4, 0, 0]));
        assert_eq!(version("0.0.50rc1+nightly"), ToolVersion([0, 0, 50, 0]));
        assert_eq!(version("0.0.42.1").to_string(), "0.0.42.1");
        assert_eq!(version("0.0.42").to_string(), "0.0.42");
        assert_eq!("nightly".parse::<ToolVersion>(), Err(()));
    }
}
