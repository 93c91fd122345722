//! The part of the protobuf wire format that compile options need.

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const DELIMITED: u64 = 2;

impl Message {
    /// Adds an integer or boolean field. Negative numbers take ten bytes, as in two's complement.
    pub(crate) fn int(mut self, field: u64, value: i64) -> Self {
        self.tag(field, VARINT);
        self.varint(value as u64);
        self
    }

    /// Adds a 64-bit float field.
    pub(crate) fn double(mut self, field: u64, value: f64) -> Self {
        self.tag(field, FIXED64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Adds a string or bytes field.
    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.tag(field, DELIMITED);
        self.varint(value.len() as u64);
        self.bytes.extend(value);
        self
    }

    /// Adds a packed list of integers.
    pub(crate) fn ints(self, field: u64, values: &[i64]) -> Self {
        let mut packed = Self::default();
        values.iter().for_each(|&value| packed.varint(value as u64));
        self.message(field, packed)
    }

    /// Adds a message field.
    pub(crate) fn message(self, field: u64, value: Self) -> Self {
        self.bytes(field, &value.bytes)
    }

    /// The bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_guide() {
        assert_eq!(Message::default().int(1, 150).finish(), [0x08, 0x96, 0x01]);
        assert_eq!(
            Message::default().bytes(2, b"testing").finish(),
            [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]
        );
        let inner = Message::default().int(1, 150);
        assert_eq!(Message::default().message(3, inner).finish(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn minus_one_takes_ten_bytes() {
        let mut expected = vec![0x08];
        expected.extend([0xff; 9]);
        expected.push(0x01);
        assert_eq!(Message::default().int(1, -1).finish(), expected);
    }

    #[test]
    fn field_numbers_above_fifteen_take_two_bytes() {
        assert_eq!(Message::default().int(16, 0).finish(), [0x80, 0x01, 0x00]);
        assert_eq!(Message::default().double(4, 1.0).finish(), [0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }
}
