//! Named values: options and attributes.

use std::ptr;

use super::{copy_text, slice};
use crate::pjrt::sys;

/// A value of one of PJRT's five kinds.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A float.
    Float(f32),
    /// A string.
    Text(String),
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
}

impl NamedValue {
    /// A value with its name.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self { name: name.into(), value }
    }

    /// Copies a list owned by the plugin. Values of unknown kinds are skipped.
    ///
    /// # Safety
    /// `list` must point to `len` named values, or be null.
    pub(super) unsafe fn copy_list(list: *const sys::NamedValue, len: usize) -> Vec<Self> {
        // SAFETY: the caller's promise.
        let list = unsafe { slice(list, len) };
        let copy = |raw: &sys::NamedValue| {
            // SAFETY: the kind says which union member is set, and the size its length.
            let value = unsafe {
                match raw.kind {
                    sys::NAMED_STRING => Value::Text(copy_text(raw.value.string, raw.value_size)),
                    sys::NAMED_INT64 => Value::Int(raw.value.int64),
                    sys::NAMED_INT64_LIST => {
                        Value::Ints(slice(raw.value.int64_list, raw.value_size).to_vec())
                    }
                    sys::NAMED_FLOAT => Value::Float(raw.value.float),
                    sys::NAMED_BOOL => Value::Bool(raw.value.boolean),
                    _ => return None,
                }
            };
            // SAFETY: a named value carries its name.
            let name = unsafe { copy_text(raw.name, raw.name_size) };
            Some(Self { name, value })
        };
        list.iter().filter_map(copy).collect()
    }

    /// The C form, which points into `self`.
    pub(super) fn as_raw(&self) -> sys::NamedValue {
        let (kind, value, value_size) = match &self.value {
            Value::Text(text) => {
                (sys::NAMED_STRING, sys::NamedValuePayload { string: text.as_ptr().cast() }, text.len())
            }
            Value::Int(int64) => (sys::NAMED_INT64, sys::NamedValuePayload { int64: *int64 }, 1),
            Value::Ints(list) => {
                (sys::NAMED_INT64_LIST, sys::NamedValuePayload { int64_list: list.as_ptr() }, list.len())
            }
            Value::Float(float) => (sys::NAMED_FLOAT, sys::NamedValuePayload { float: *float }, 1),
            Value::Bool(boolean) => (sys::NAMED_BOOL, sys::NamedValuePayload { boolean: *boolean }, 1),
        };
        sys::NamedValue {
            struct_size: size_of::<sys::NamedValue>(),
            extension_start: ptr::null_mut(),
            name: self.name.as_ptr().cast(),
            name_size: self.name.len(),
            kind,
            value,
            value_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_through_c() {
        let values = [
            NamedValue::new("text", Value::Text("tpu7x".into())),
            NamedValue::new("int", Value::Int(-3)),
            NamedValue::new("ints", Value::Ints(vec![1, 2, 4])),
            NamedValue::new("float", Value::Float(1.5)),
            NamedValue::new("bool", Value::Bool(true)),
        ];
        let raw: Vec<_> = values.iter().map(NamedValue::as_raw).collect();
        // SAFETY: the list was made above, and `values` is still alive.
        let copied = unsafe { NamedValue::copy_list(raw.as_ptr(), raw.len()) };
        assert_eq!(copied, values);
    }
}
