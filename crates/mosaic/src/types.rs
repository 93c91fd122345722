//! Types of values, and how MLIR spells them.

use std::fmt::{self, Display};

/// A dynamic extent; prints as `?`.
pub const DYNAMIC: usize = usize::MAX;

/// Memory space of a memref on a TPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// Chosen by the compiler.
    Any,
    /// HBM.
    Hbm,
    /// VMEM.
    Vmem,
    /// SMEM.
    Smem,
    /// Semaphore memory.
    Semaphore,
}

impl Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Any => "any",
            Self::Hbm => "hbm",
            Self::Vmem => "vmem",
            Self::Smem => "smem",
            Self::Semaphore => "semaphore_mem",
        };
        write!(f, "#tpu.memory_space<{name}>")
    }
}

/// Floating-point formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float {
    /// IEEE f32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE f16.
    F16,
    /// f8E4M3FN, the format of weights.
    F8E4M3FN,
    /// f8E5M2.
    F8E5M2,
}

impl Float {
    /// Bits per element.
    pub const fn bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::Bf16 | Self::F16 => 16,
            Self::F8E4M3FN | Self::F8E5M2 => 8,
        }
    }
}

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F8E4M3FN => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
        })
    }
}

/// Layout of a memref, once assigned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Tiled by the compiler.
    Tiled {
        /// Tiles, outermost first, for example `(8,128)`.
        tiles: Vec<Vec<usize>>,
        /// Stride between tiles along each dimension, in tiles.
        strides: Vec<usize>,
    },
    /// An unknown layout, kept verbatim.
    Other(String),
}

impl Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tiles, strides) = match self {
            Self::Tiled { tiles, strides } => (tiles, strides),
            Self::Other(text) => return f.write_str(text),
        };
        f.write_str("#tpu.tiled<")?;
        for tile in tiles {
            write!(f, "({})", join(tile, ","))?;
        }
        write!(f, ",[{}]>", join(strides, ","))
    }
}

/// A memref type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemRef {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Element type.
    pub element: Box<Type>,
    /// Layout, if assigned.
    pub layout: Option<Layout>,
    /// Memory space.
    pub space: Option<MemorySpace>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `index`.
    Index,
    /// A signless integer of the given bit width.
    Integer(u32),
    /// A float.
    Float(Float),
    /// A DMA semaphore.
    DmaSemaphore,
    /// A regular semaphore.
    Semaphore,
    /// A vector.
    Vector(Vec<usize>, Box<Type>),
    /// A tensor of the surrounding StableHLO module.
    Tensor(Vec<usize>, Box<Type>),
    /// A memref.
    MemRef(MemRef),
    /// An unknown type, kept verbatim.
    Other(String),
}

impl Type {
    /// Creates `i1`.
    pub const I1: Self = Self::Integer(1);
    /// Creates `i32`.
    pub const I32: Self = Self::Integer(32);
    /// Creates `i64`.
    pub const I64: Self = Self::Integer(64);
    /// Creates `f32`.
    pub const F32: Self = Self::Float(Float::F32);

    /// Creates a vector type.
    pub fn vector(shape: impl Into<Vec<usize>>, element: impl Into<Self>) -> Self {
        Self::Vector(shape.into(), Box::new(element.into()))
    }

    /// Creates a tensor type.
    pub fn tensor(shape: impl Into<Vec<usize>>, element: impl Into<Self>) -> Self {
        Self::Tensor(shape.into(), Box::new(element.into()))
    }

    /// Creates a memref type without a layout.
    pub fn memref(shape: impl Into<Vec<usize>>, element: impl Into<Self>, space: MemorySpace) -> Self {
        Self::MemRef(MemRef {
            shape: shape.into(),
            element: Box::new(element.into()),
            layout: None,
            space: Some(space),
        })
    }

    /// Extents of a vector, tensor or memref; empty for scalars.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::Vector(shape, _) | Self::Tensor(shape, _) => shape,
            Self::MemRef(memref) => &memref.shape,
            _ => &[],
        }
    }

    /// Element type; a scalar is its own element.
    pub fn element(&self) -> &Self {
        match self {
            Self::Vector(_, element) | Self::Tensor(_, element) => element,
            Self::MemRef(memref) => &memref.element,
            scalar => scalar,
        }
    }

    /// The same type with another element type.
    pub fn with_element(&self, element: impl Into<Self>) -> Self {
        let element = element.into();
        match self {
            Self::Vector(shape, _) => Self::vector(shape.clone(), element),
            Self::Tensor(shape, _) => Self::tensor(shape.clone(), element),
            Self::MemRef(memref) => Self::MemRef(MemRef { element: Box::new(element), ..memref.clone() }),
            _ => element,
        }
    }

    /// The same type with another shape.
    pub fn with_shape(&self, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        match self {
            Self::Tensor(_, element) => Self::Tensor(shape, element.clone()),
            Self::MemRef(memref) => Self::MemRef(MemRef { shape, ..memref.clone() }),
            Self::Vector(_, element) => Self::Vector(shape, element.clone()),
            scalar => Self::vector(shape, scalar.clone()),
        }
    }
}

impl From<Float> for Type {
    fn from(float: Float) -> Self {
        Self::Float(float)
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("index"),
            Self::Integer(bits) => write!(f, "i{bits}"),
            Self::Float(float) => float.fmt(f),
            Self::DmaSemaphore => f.write_str("!tpu.dma_semaphore"),
            Self::Semaphore => f.write_str("!tpu.semaphore"),
            Self::Vector(shape, element) => write!(f, "vector<{}{element}>", Extents(shape)),
            Self::Tensor(shape, element) => write!(f, "tensor<{}{element}>", Extents(shape)),
            Self::MemRef(memref) => {
                write!(f, "memref<{}{}", Extents(&memref.shape), memref.element)?;
                if let Some(layout) = &memref.layout {
                    write!(f, ", {layout}")?;
                }
                if let Some(space) = memref.space {
                    write!(f, ", {space}")?;
                }
                f.write_str(">")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Extents before an element type, `2x128x`.
struct Extents<'a>(&'a [usize]);

impl Display for Extents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &extent in self.0 {
            match extent {
                DYNAMIC => f.write_str("?x")?,
                extent => write!(f, "{extent}x")?,
            }
        }
        Ok(())
    }
}

/// Spells extents before an element type, `2x128x`.
pub(crate) fn extents_to_text(extents: &[usize]) -> String {
    Extents(extents).to_string()
}

/// Joins items with a separator.
pub(crate) fn join<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut text = String::new();
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            text.push_str(separator);
        }
        text.push_str(&item.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_spelled_as_mlir_spells_them() {
        let semaphores = Type::memref([2, 5], Type::DmaSemaphore, MemorySpace::Semaphore);
        assert_eq!(
            semaphores.to_string(),
            "memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
        );
        assert_eq!(Type::vector([32, 128], Float::F8E4M3FN).to_string(), "vector<32x128xf8E4M3FN>");
        assert_eq!(Type::tensor([], Float::F32).to_string(), "tensor<f32>");
        let tiled = Type::MemRef(MemRef {
            shape: vec![DYNAMIC, 256],
            element: Box::new(Float::Bf16.into()),
            layout: Some(Layout::Tiled { tiles: vec![vec![8, 128], vec![2, 1]], strides: vec![2, 1] }),
            space: Some(MemorySpace::Vmem),
        });
        assert_eq!(
            tiled.to_string(),
            "memref<?x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>"
        );
    }
}
