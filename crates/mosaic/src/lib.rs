//! MLIR modules as Rust values, for the dialects that a Mosaic TPU kernel and the StableHLO around it are
//! written in. A [`Module`] is built with a [`FunctionBuilder`], printed with `Display`, and knows nothing of
//! files, compilers or kernels.
//!
//! Operations are kept in one generic form ([`Op`]): a name, operands, results, attributes and regions. The
//! builder's methods are typed; unknown operations still parse and print.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod attribute;
pub mod build;
pub mod bytecode;
pub mod interpret;
pub mod ir;
pub mod limits;
pub mod parse;
mod print;
mod source;
pub mod types;
mod upgrade;
pub mod verify;

pub use attribute::{Attr, Attributes, CoreType, DimensionSemantics, DotDimensions};
pub use build::FunctionBuilder;
pub use ir::{Function, Module, Op, Place, Region, SourceFrame, SourceStack, Value, Visibility};
pub use parse::{ParseError, ParseErrorKind, parse};
pub use print::Stable;
pub use types::{Float, Layout, MemRef, MemorySpace, Type};
