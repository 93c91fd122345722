//! `config.json`. Values that are not edited keep their exact text.

use std::{collections::HashMap, fmt, path::Path};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::json_text;
use crate::error::{CheckpointError, Result};

/// The entries of a `config.json`, in order.
#[derive(Debug, Clone)]
pub struct Config {
    entries: Vec<(String, Box<RawValue>)>,
}

impl Config {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let Entries(entries) = serde_json::from_str(&json_text(path)?).map_err(|error| {
            CheckpointError::DamagedJson { path: path.to_owned(), why: error.to_string() }
        })?;
        Ok(Self { entries })
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        let (_, raw) = self.entries.iter().find(|(name, _)| name == key)?;
        serde_json::from_str(raw.get()).ok()
    }

    /// Returns a number of the model; multimodal models keep it under `text_config`.
    pub fn model_number(&self, key: &str) -> Option<usize> {
        let own = self.get(key);
        let number = own.or_else(|| self.get("text_config")?.get(key).cloned())?;
        usize::try_from(number.as_u64()?).ok()
    }

    /// Replaces a value in place, or appends it.
    pub fn set(&mut self, key: &str, value: &impl Serialize) -> serde_json::Result<()> {
        let text = serde_json::to_string_pretty(value)?.replace('\n', "\n  ");
        let raw = RawValue::from_string(text)?;
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = raw,
            None => self.entries.push((key.to_owned(), raw)),
        }
        Ok(())
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|(name, _)| name != key);
    }

    /// Formats the file, one entry per line; nested values keep their text.
    pub fn to_text(&self) -> String {
        let entry =
            |(key, raw): &(String, Box<RawValue>)| format!("  {}: {}", Value::from(key.as_str()), raw.get());
        let entries: Vec<_> = self.entries.iter().map(entry).collect();
        format!("{{\n{}\n}}\n", entries.join(",\n"))
    }
}

struct Entries(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut places = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    // If a key occurs twice the last value wins, as in other JSON readers.
                    let place = *places.entry(key.clone()).or_insert(entries.len());
                    match entries.get_mut(place) {
                        Some((_, old)) => *old = value,
                        None => entries.push((key, value)),
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Each)
    }
}
