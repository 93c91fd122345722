//! Locations: where an operation comes from in the program that was lowered.

use super::{Result, attributes::Pool, bytes::Bytes, tables::get};
use crate::source::Trace;

impl<'a> Pool<'a> {
    /// Reads the number of a location and decodes it.
    pub(super) fn location(&mut self, bytes: &mut Bytes<'a>) -> Result<Trace> {
        let start = *bytes;
        let number = bytes.varint()?;
        self.location_at(start, number)
    }

    fn location_at(&mut self, start: Bytes<'a>, number: u64) -> Result<Trace> {
        match get(&self.traces, number) {
            None => return Err(start.error(format!("no location {number}"))),
            Some(Some(known)) => return Ok(known.clone()),
            Some(None) => {}
        }
        let trace = self.nested(start, |pool| pool.decode_location(start, number))?;
        if let Some(place) = usize::try_from(number).ok().and_then(|n| self.traces.get_mut(n)) {
            *place = Some(trace.clone());
        }
        Ok(trace)
    }

    fn decode_location(&mut self, start: Bytes<'a>, number: u64) -> Result<Trace> {
        let Some(&entry) = get(&self.tables.attributes, number) else {
            return Err(start.error(format!("no location {number}")));
        };
        if !entry.is_encoded || self.tables.dialect(&entry) != "builtin" {
            return Ok(Trace::default());
        }
        let mut bytes = entry.data;
        match bytes.varint()? {
            10 => {
                let callee = self.location(&mut bytes)?;
                let caller = self.location(&mut bytes)?;
                Ok(callee.called_from(&caller))
            }
            11 => {
                let file = self.name(&mut bytes)?;
                let (line, column) = (bytes.varint()?, bytes.varint()?);
                Ok(Trace::file(&file, line, column))
            }
            // The metadata of a fused location comes last and says nothing about lines.
            12 | 13 => {
                let mut traces = Vec::new();
                for _ in 0..bytes.count("locations")? {
                    traces.push(self.location(&mut bytes)?);
                }
                Ok(Trace::fused(traces))
            }
            14 => {
                let name = self.name(&mut bytes)?;
                Ok(self.location(&mut bytes)?.named(&name))
            }
            15 => Ok(Trace::default()),
            22 => {
                let file = self.name(&mut bytes)?;
                let mut numbers = [0; 2];
                for at in 0..bytes.count("numbers")? {
                    let number = bytes.varint()?;
                    if let Some(place) = numbers.get_mut(at) {
                        *place = number;
                    }
                }
                Ok(Trace::file(&file, numbers[0], numbers[1]))
            }
            code => Err(entry.data.error(format!("attribute code {code} is not a location"))),
        }
    }
}
