//! Compile options: the serialized `CompileOptionsProto` that every PJRT compiler takes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::protobuf::Message;

/// The value of a compiler option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(flag) => flag.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// How to compile one program for one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompileOptions {
    overrides: Vec<(String, OptionValue)>,
}

/// Field numbers of the messages in `xla/pjrt/proto/compile_options.proto`.
mod field {
    pub(super) const OPTIONS_BUILD: u64 = 3;
    pub(super) const OPTIONS_OVERRIDES: u64 = 7;
    pub(super) const BUILD_DEVICE_ORDINAL: u64 = 1;
    pub(super) const BUILD_NUM_REPLICAS: u64 = 4;
    pub(super) const BUILD_NUM_PARTITIONS: u64 = 5;
    pub(super) const ENTRY_KEY: u64 = 1;
    pub(super) const ENTRY_VALUE: u64 = 2;
    pub(super) const OVERRIDE_STRING: u64 = 1;
    pub(super) const OVERRIDE_BOOL: u64 = 2;
    pub(super) const OVERRIDE_INT: u64 = 3;
    pub(super) const OVERRIDE_DOUBLE: u64 = 4;
}

/// The device ordinal that leaves the choice to the runtime.
const ANY_DEVICE: i64 = -1;

impl CompileOptions {
    /// Sets a compiler option for this compilation, for example `xla_dump_to`.
    pub fn set(mut self, name: impl Into<String>, value: OptionValue) -> Self {
        self.overrides.push((name.into(), value));
        self
    }

    /// Serializes the options: one replica, one partition, and the options set.
    pub fn serialize(&self) -> Vec<u8> {
        let build = Message::default()
            .int(field::BUILD_DEVICE_ORDINAL, ANY_DEVICE)
            .int(field::BUILD_NUM_REPLICAS, 1)
            .int(field::BUILD_NUM_PARTITIONS, 1);
        let options = Message::default().message(field::OPTIONS_BUILD, build);
        let entry = |(name, value): &(String, OptionValue)| {
            Message::default()
                .bytes(field::ENTRY_KEY, name.as_bytes())
                .message(field::ENTRY_VALUE, override_message(value))
        };
        self.overrides
            .iter()
            .map(entry)
            .fold(options, |options, entry| options.message(field::OPTIONS_OVERRIDES, entry))
            .finish()
    }
}

fn override_message(value: &OptionValue) -> Message {
    let message = Message::default();
    match value {
        OptionValue::Text(text) => message.bytes(field::OVERRIDE_STRING, text.as_bytes()),
        OptionValue::Bool(flag) => message.int(field::OVERRIDE_BOOL, i64::from(*flag)),
        OptionValue::Int(number) => message.int(field::OVERRIDE_INT, *number),
        OptionValue::Float(number) => message.double(field::OVERRIDE_DOUBLE, *number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_options_ask_for_one_replica_and_one_partition() {
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let mut build = vec![0x08];
        build.extend(minus_one);
        build.extend([0x20, 1, 0x28, 1]);
        let mut expected = vec![0x1a, build.len() as u8];
        expected.extend(build);
        assert_eq!(CompileOptions::default().serialize(), expected);
    }

    #[test]
    fn overrides_are_map_entries() {
        let plain = CompileOptions::default().serialize();
        let options = CompileOptions::default().set("ab", OptionValue::Bool(true));
        let entry = [0x3a, 8, 0x0a, 2, b'a', b'b', 0x12, 2, 0x10, 1];
        assert_eq!(options.serialize(), [plain.as_slice(), &entry].concat());
    }
}
