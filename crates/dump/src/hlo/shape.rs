//! Shapes: element type, dimensions, layout with tiling and memory space.

use serde::Serialize;

use super::lexer::{Lexer, Stop, split_commas};
use crate::source::Span;

/// Layout of an array: `{1,0:T(8,128)(2,1)S(1)}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Dimensions from the fastest to the slowest.
    pub minor_to_major: Vec<u32>,
    /// Tiles, outermost first: `T(8,128)(2,1)` is two.
    pub tiles: Vec<Vec<i64>>,
    /// The `S(n)` of the layout: 0 or absent is HBM, 1 VMEM, 2 SMEM or a sync word.
    pub memory_space: u32,
    /// Other layout annotations, verbatim, for example `E(4)`.
    pub other: String,
}

/// An array, or a tuple of shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// For example `f32[4,4]{1,0}`.
    Array {
        /// For example `f8e4m3fn`.
        element: String,
        /// `None` if not stated, as in `f32[...]`.
        dims: Option<Vec<u64>>,
        /// The layout, if stated.
        layout: Option<Layout>,
    },
    /// For example `(f32[4], u32[])`.
    Tuple(Vec<Shape>),
}

impl Shape {
    /// Parses a shape; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::nested(text, 0)
    }

    fn nested(text: &str, depth: usize) -> Option<Self> {
        // A tuple of tuples of tuples ... from a hostile file must not exhaust the stack.
        const DEEPEST: usize = 64;
        let text = without_comment(text.trim());
        if let Some(inside) = text.strip_prefix('(') {
            let inside = inside.strip_suffix(')').filter(|_| depth < DEEPEST)?;
            let parts = split_commas(inside, Span::new(0, inside.len()));
            let parts = parts.into_iter().map(|part| part.of(inside));
            // The guides abbreviate elements as `...`.
            let parts = parts.filter(|part| *part != "...");
            return parts.map(|part| Self::nested(part, depth + 1)).collect::<Option<_>>().map(Self::Tuple);
        }
        let (element, rest) = text.split_once('[')?;
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if element.is_empty() || !element.bytes().all(is_name) {
            return None;
        }
        let (dims, rest) = rest.split_once(']')?;
        let rest = rest.trim();
        let layout = match rest {
            "" => None,
            _ => Some(Layout::parse(rest.strip_prefix('{')?.strip_suffix('}')?)),
        };
        Some(Self::Array { element: element.to_owned(), dims: parse_dims(dims)?, layout })
    }

    /// The element type; empty for a tuple.
    pub fn element(&self) -> &str {
        match self {
            Self::Array { element, .. } => element,
            Self::Tuple(_) => "",
        }
    }

    /// The dimensions, where they are known.
    pub fn dims(&self) -> Option<&[u64]> {
        match self {
            Self::Array { dims, .. } => dims.as_deref(),
            Self::Tuple(_) => None,
        }
    }

    /// The `S(n)` of the layout, or 0.
    pub fn memory_space(&self) -> u32 {
        match self {
            Self::Array { layout: Some(layout), .. } => layout.memory_space,
            _ => 0,
        }
    }

    /// Bytes without padding, if type and dimensions are known.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Array { element, dims, .. } => {
                let count = dims.as_ref()?.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))?;
                count.checked_mul(element_bits(element)?).map(|bits| bits.div_ceil(8))
            }
            Self::Tuple(shapes) => {
                shapes.iter().map(Self::bytes).try_fold(0u64, |sum, b| sum.checked_add(b?))
            }
        }
    }
}

impl Layout {
    fn parse(text: &str) -> Self {
        let (order, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut layout = Self {
            minor_to_major: order.split(',').filter_map(|dim| dim.trim().parse().ok()).collect(),
            ..Self::default()
        };
        let mut lexer = Lexer::new(rest);
        let mut key = "";
        while !lexer.is_done() {
            let start = lexer.at;
            let name = lexer.take_while(|b| b.is_ascii_alphabetic()).of(rest);
            if lexer.peek() != b'(' {
                lexer.take_while(|b| b != b'(' && !b.is_ascii_alphabetic());
                layout.other.push_str(rest.get(start..lexer.at).unwrap_or_default());
                continue;
            }
            if !name.is_empty() {
                key = name;
            }
            lexer.at += 1;
            let inside = lexer.at;
            if lexer.balanced(b"", false) != Stop::Closing(b')') {
                layout.other.push_str(rest.get(start..).unwrap_or_default());
                break;
            }
            let inside = rest.get(inside..lexer.at).unwrap_or_default();
            lexer.at += 1;
            match key {
                "T" => layout.tiles.push(inside.split(',').map(|n| n.trim().parse().unwrap_or(-1)).collect()),
                "S" => layout.memory_space = inside.parse().unwrap_or_default(),
                _ => layout.other.push_str(rest.get(start..lexer.at).unwrap_or_default()),
            }
        }
        layout
    }
}

/// `512,512`, `<=5,3`, empty, or `...` for unknown (inner `None`); the outer `None` means that it is not a dimension list.
fn parse_dims(text: &str) -> Option<Option<Vec<u64>>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Some(Vec::new()));
    }
    if text.contains("...") || text.contains('?') {
        return Some(None);
    }
    let dim = |part: &str| without_comment(part.trim()).trim_start_matches("<=").parse().ok();
    text.split(',').map(dim).collect::<Option<_>>().map(Some)
}

/// Without a leading `/*index=5*/`.
fn without_comment(text: &str) -> &str {
    let after = text.strip_prefix("/*").and_then(|t| t.split_once("*/"));
    after.map_or(text, |(_, after)| after.trim_start())
}

/// Bits of one element of an XLA type.
fn element_bits(element: &str) -> Option<u64> {
    Some(match element {
        "pred" => 8,
        "token" | "opaque" => 0,
        "c64" => 64,
        "c128" => 128,
        _ => {
            let digits = element.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let width: String = digits.chars().take_while(char::is_ascii_digit).collect();
            width.parse().ok().filter(|bits| (1..=128).contains(bits))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_tiles_and_a_space() {
        let shape = Shape::parse("f8e4m3fn[512,128]{1,0:T(32,128)(4,1)S(1)}").unwrap();
        let Shape::Array { layout: Some(layout), .. } = &shape else { panic!() };
        assert_eq!(layout.minor_to_major, [1, 0]);
        assert_eq!(layout.tiles, [[32, 128], [4, 1]]);
        assert_eq!((shape.memory_space(), shape.bytes()), (1, Some(65536)));
        let other = Shape::parse("bf16[8]{0:T(256)(128)(2,1)E(4)S(5)}").unwrap();
        let Shape::Array { layout: Some(layout), .. } = &other else { panic!() };
        assert_eq!((layout.tiles.len(), layout.other.as_str(), layout.memory_space), (3, "E(4)", 5));
    }

    #[test]
    fn tuples_scalars_and_ellipses() {
        let shape = Shape::parse("(f32[4,4]{1,0:T(4,128)S(1)}, /*index=1*/f32[4,4], u32[]{:S(2)})").unwrap();
        let Shape::Tuple(parts) = &shape else { panic!() };
        assert_eq!(parts.iter().map(Shape::memory_space).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(parts[2].dims(), Some(&[][..]));
        assert_eq!(Shape::parse("f8e4m3fn[...]").unwrap().dims(), None);
        assert_eq!(
            Shape::parse("(f8e4m3fn[...], ...)"),
            Some(Shape::Tuple(vec![Shape::parse("f8e4m3fn[...]").unwrap()]))
        );
        for not in ["", "f32", "%x", "(f32[2]", "f32[2", "f32[a]", "constant(0)"] {
            assert_eq!(Shape::parse(not), None, "{not}");
        }
    }
}
