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

/// How many devices run a program: each replica is the whole program, divided into partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    /// Copies of the program.
    pub replicas: usize,
    /// Devices that share one copy.
    pub partitions: usize,
}

impl Default for DeviceCounts {
    fn default() -> Self {
        Self { replicas: 1, partitions: 1 }
    }
}

impl DeviceCounts {
    /// Number of devices.
    pub fn total(self) -> usize {
        self.replicas.saturating_mul(self.partitions)
    }

    /// Which device runs which partition of which replica: in order, from device 0.
    fn assignment(self) -> Message {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let ids = |partition: usize| {
            let ids = (0..self.replicas).map(|replica| count(replica * self.partitions + partition));
            Message::default().ints(field::COMPUTATION_DEVICES, &ids.collect::<Vec<_>>())
        };
        let counts = Message::default()
            .int(field::ASSIGNMENT_REPLICAS, count(self.replicas))
            .int(field::ASSIGNMENT_COMPUTATIONS, count(self.partitions));
        (0..self.partitions).map(ids).fold(counts, |all, ids| all.message(field::ASSIGNMENT_DEVICES, ids))
    }
}

/// How to compile one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompileOptions {
    devices: DeviceCounts,
    shardy: bool,
    overrides: Vec<(String, OptionValue)>,
}

/// Field numbers of the messages in `xla/pjrt/proto/compile_options.proto`.
mod field {
    pub(super) const OPTIONS_BUILD: u64 = 3;
    pub(super) const OPTIONS_OVERRIDES: u64 = 7;
    pub(super) const BUILD_DEVICE_ORDINAL: u64 = 1;
    pub(super) const BUILD_NUM_REPLICAS: u64 = 4;
    pub(super) const BUILD_NUM_PARTITIONS: u64 = 5;
    pub(super) const BUILD_USE_SPMD: u64 = 6;
    pub(super) const BUILD_DEVICE_ASSIGNMENT: u64 = 9;
    pub(super) const BUILD_USE_SHARDY: u64 = 19;
    pub(super) const ASSIGNMENT_REPLICAS: u64 = 1;
    pub(super) const ASSIGNMENT_COMPUTATIONS: u64 = 2;
    pub(super) const ASSIGNMENT_DEVICES: u64 = 3;
    pub(super) const COMPUTATION_DEVICES: u64 = 1;
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

    /// Compiles for several devices instead of one.
    pub fn on_devices(mut self, devices: DeviceCounts) -> Self {
        self.devices = devices;
        self
    }

    /// Divides the program with Shardy, for modules in its dialect.
    pub fn with_shardy(mut self, shardy: bool) -> Self {
        self.shardy = shardy;
        self
    }

    /// Serializes the options: replicas, partitions, and the options set.
    pub fn serialize(&self) -> Vec<u8> {
        let DeviceCounts { replicas, partitions } = self.devices;
        let mut build = Message::default()
            .int(field::BUILD_DEVICE_ORDINAL, ANY_DEVICE)
            .int(field::BUILD_NUM_REPLICAS, replicas as i64)
            .int(field::BUILD_NUM_PARTITIONS, partitions as i64);
        if partitions > 1 {
            build = build.int(field::BUILD_USE_SPMD, 1);
        }
        if self.shardy {
            build = build.int(field::BUILD_USE_SHARDY, 1);
        }
        if self.devices.total() > 1 {
            build = build.message(field::BUILD_DEVICE_ASSIGNMENT, self.devices.assignment());
        }
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
    fn several_devices_are_assigned_in_order() {
        let devices = DeviceCounts { replicas: 2, partitions: 2 };
        let bytes = CompileOptions::default().on_devices(devices).with_shardy(true).serialize();
        // As jaxlib serializes DeviceAssignment.create([[0, 1], [2, 3]]).
        let assignment = [8, 2, 16, 2, 0x1a, 4, 0x0a, 2, 0, 2, 0x1a, 4, 0x0a, 2, 1, 3];
        assert!(bytes.ends_with(&[&[0x4a, 16][..], &assignment].concat()), "{bytes:?}");
        let counts = [0x20, 2, 0x28, 2, 0x30, 1, 0x98, 1, 1];
        assert!(bytes.windows(counts.len()).any(|window| window == counts), "{bytes:?}");
    }

    #[test]
    fn overrides_are_map_entries() {
        let plain = CompileOptions::default().serialize();
        let options = CompileOptions::default().set("ab", OptionValue::Bool(true));
        let entry = [0x3a, 8, 0x0a, 2, b'a', b'b', 0x12, 2, 0x10, 1];
        assert_eq!(options.serialize(), [plain.as_slice(), &entry].concat());
    }
}
