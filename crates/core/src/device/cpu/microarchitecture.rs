//! CPU designs, by what the CPUID instruction reports.

use std::fmt;

/// Vendor, family and model as the CPUID instruction reports them. Virtual machines hide the model's name,
/// but rarely these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuId {
    /// Vendor, such as `GenuineIntel`.
    pub vendor: String,
    /// Family, the extended one included.
    pub family: u32,
    /// Model, the extended one included.
    pub model: u32,
}

impl CpuId {
    /// Reads the family and model of leaf 1.
    pub fn new(vendor: String, signature: u32) -> Self {
        let bits = |from: u32, count: u32| (signature >> from) & ((1 << count) - 1);
        let family = bits(8, 4);
        Self {
            vendor,
            family: if family == 15 { family + bits(20, 8) } else { family },
            model: if matches!(family, 6 | 15) { bits(4, 4) | bits(16, 4) << 4 } else { bits(4, 4) },
        }
    }

    /// The design, if it is one of those that the kernels distinguish.
    pub fn microarchitecture(&self) -> Option<Microarchitecture> {
        use Microarchitecture::*;
        Some(match (self.vendor.as_str(), self.family, self.model) {
            ("GenuineIntel", 6, 0x55) => SkylakeX,
            ("GenuineIntel", 6, 0x6a | 0x6c) => IceLake,
            ("GenuineIntel", 6, 0x8f) => SapphireRapids,
            ("GenuineIntel", 6, 0xcf) => EmeraldRapids,
            ("GenuineIntel", 6, 0xad | 0xae) => GraniteRapids,
            ("AuthenticAMD", 0x17, 0x30..) => Zen2,
            ("AuthenticAMD", 0x19, 0x00..=0x0f | 0x20..=0x5f) => Zen3,
            ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => Zen4,
            ("AuthenticAMD", 0x1a, 0x00..=0x4f | 0x60..=0x7f) => Zen5,
            _ => return None,
        })
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.microarchitecture() {
            Some(known) => known.fmt(f),
            None => write!(f, "{} family {} model {}", self.vendor, self.family, self.model),
        }
    }
}

/// A CPU design of the last years' servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of products")]
#[non_exhaustive]
pub enum Microarchitecture {
    SkylakeX,
    IceLake,
    SapphireRapids,
    EmeraldRapids,
    GraniteRapids,
    Zen2,
    Zen3,
    Zen4,
    Zen5,
}

impl Microarchitecture {
    /// Its vendor's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SkylakeX => "Skylake-X or Cascade Lake",
            Self::IceLake => "Ice Lake",
            Self::SapphireRapids => "Sapphire Rapids",
            Self::EmeraldRapids => "Emerald Rapids",
            Self::GraniteRapids => "Granite Rapids",
            Self::Zen2 => "Zen 2",
            Self::Zen3 => "Zen 3",
            Self::Zen4 => "Zen 4",
            Self::Zen5 => "Zen 5",
        }
    }

    /// Whether weights that are decoded once are best prefetched straight into the L1 cache, in the order of
    /// their addresses. On Emerald Rapids they go through the L2 cache; other designs were not measured.
    pub const fn prefetches_into_l1(self) -> bool {
        matches!(self, Self::Zen5)
    }
}

impl fmt::Display for Microarchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_processors() {
        let shown = |vendor: &str, signature| CpuId::new(vendor.to_owned(), signature).to_string();
        let intel = |signature| shown("GenuineIntel", signature);
        let amd = |signature| shown("AuthenticAMD", signature);
        // Xeon 8480+, 8592+, 6980P, 8380, 8280, E5-2690 v3.
        assert_eq!(intel(0x000806f8), "Sapphire Rapids");
        assert_eq!(intel(0x000c06f2), "Emerald Rapids");
        assert_eq!(intel(0x000a06d1), "Granite Rapids");
        assert_eq!(intel(0x000606a6), "Ice Lake");
        assert_eq!(intel(0x00050657), "Skylake-X or Cascade Lake");
        assert_eq!(intel(0x000306f2), "GenuineIntel family 6 model 63");
        // EPYC 9654, 9754, 9755, 7763, 7742, and a processor of another family.
        assert_eq!(amd(0x00a10f11), "Zen 4");
        assert_eq!(amd(0x00aa0f02), "Zen 4");
        assert_eq!(amd(0x00b00f21), "Zen 5");
        assert_eq!(amd(0x00a00f11), "Zen 3");
        assert_eq!(amd(0x00830f10), "Zen 2");
        assert_eq!(amd(0x00c00f00), "AuthenticAMD family 27 model 0");
        assert_eq!(shown("HygonGenuine", 0x00900f02), "HygonGenuine family 24 model 0");
    }
}
