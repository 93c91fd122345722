//! Properties of operations, which versions 5 and 6 keep apart from the attributes.

use super::{
    Result,
    attributes::Pool,
    bytes::Bytes,
    tables::{OpName, get},
};
use crate::attribute::{Attr, Attributes};

impl<'a> Pool<'a> {
    /// Reads the properties of an operation as attributes.
    pub(super) fn properties(&mut self, bytes: &mut Bytes<'a>, op: &OpName) -> Result<Attributes> {
        let start = *bytes;
        if !op.is_registered {
            return match self.attribute(bytes)? {
                Attr::Dict(attributes) => Ok(attributes),
                _ => Err(start.error("the properties of an operation are not a dictionary")),
            };
        }
        let number = bytes.varint()?;
        let Some(&data) = get(&self.tables.properties, number) else {
            return Err(start.error(format!("no properties {number}")));
        };
        let _ = data;
        Err(start.unsupported(format!("the properties of {} are not supported", op.name)))
    }
}
