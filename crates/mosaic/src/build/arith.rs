//! Constants and arithmetic on scalars and vectors.

use super::FunctionBuilder;
use crate::{
    attribute::{Attr, Attributes},
    ir::Value,
    types::{Float, Type},
};

/// Signed integer comparisons, numbered as in MLIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntPredicate {
    /// Equal.
    Eq = 0,
    /// Not equal.
    Ne = 1,
    /// Less.
    Slt = 2,
    /// Less or equal.
    Sle = 3,
    /// Greater.
    Sgt = 4,
    /// Greater or equal.
    Sge = 5,
}

/// Ordered float comparisons (false for NaN), numbered as in MLIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatPredicate {
    /// Equal.
    Oeq = 1,
    /// Greater.
    Ogt = 2,
}

impl FunctionBuilder {
    /// Creates an index constant.
    pub fn index(&mut self, value: usize) -> Value {
        let attr = Attr::Integer(value as i64, Type::Index);
        self.constant(attr, Type::Index, format!("c{value}"))
    }

    /// Creates an `i32` constant.
    pub fn i32(&mut self, value: usize) -> Value {
        let attr = Attr::Integer(value as i64, Type::I32);
        self.constant(attr, Type::I32, format!("c{value}_i32"))
    }

    /// Creates an `f32` constant.
    pub fn f32(&mut self, value: f32) -> Value {
        self.constant(Attr::Float(f64::from(value), Type::F32), Type::F32, "cst")
    }

    /// Creates an `f32` splat vector.
    pub fn splat(&mut self, value: f32, shape: impl Into<Vec<usize>>) -> Value {
        self.splat_of(value, shape, Float::F32)
    }

    /// A vector of equal elements of a float type.
    pub fn splat_of(&mut self, value: f32, shape: impl Into<Vec<usize>>, float: Float) -> Value {
        let ty = Type::vector(shape, float);
        let element = Attr::Float(f64::from(value), float.into());
        self.constant(Attr::Splat(Box::new(element), ty.clone()), ty, "cst")
    }

    fn binary(&mut self, name: &'static str, a: Value, b: Value) -> Value {
        let ty = self.ty(a).clone();
        assert_eq!(&ty, self.ty(b), "{name} takes two operands of one type");
        self.op1(name, &[a, b], ty, Attributes::new())
    }

    /// Integer addition.
    pub fn addi(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.addi", a, b)
    }

    /// Integer subtraction.
    pub fn subi(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.subi", a, b)
    }

    /// Integer multiplication.
    pub fn muli(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.muli", a, b)
    }

    /// Signed division, rounding towards zero.
    pub fn divsi(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.divsi", a, b)
    }

    /// Signed remainder.
    pub fn remsi(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.remsi", a, b)
    }

    /// Bitwise and.
    pub fn andi(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.andi", a, b)
    }

    /// Float addition.
    pub fn addf(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.addf", a, b)
    }

    /// Float subtraction.
    pub fn subf(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.subf", a, b)
    }

    /// Float multiplication.
    pub fn mulf(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.mulf", a, b)
    }

    /// Float division.
    pub fn divf(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.divf", a, b)
    }

    /// Float maximum.
    pub fn maximumf(&mut self, a: Value, b: Value) -> Value {
        self.binary("arith.maximumf", a, b)
    }

    /// Compares integers.
    pub fn cmpi(&mut self, predicate: IntPredicate, a: Value, b: Value) -> Value {
        self.compare("arith.cmpi", predicate as i64, a, b)
    }

    /// Compares floats.
    pub fn cmpf(&mut self, predicate: FloatPredicate, a: Value, b: Value) -> Value {
        self.compare("arith.cmpf", predicate as i64, a, b)
    }

    fn compare(&mut self, name: &'static str, predicate: i64, a: Value, b: Value) -> Value {
        assert_eq!(self.ty(a), self.ty(b), "{name} takes two operands of one type");
        let result = self.ty(a).with_element(Type::I1);
        let predicate = Attributes::new().with("predicate", Attr::Integer(predicate, Type::I64));
        self.op1(name, &[a, b], result, predicate)
    }

    /// Selects `yes` where `condition` holds, else `no`.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let ty = self.ty(yes).clone();
        assert_eq!(&ty, self.ty(no), "arith.select chooses between values of one type");
        self.op1("arith.select", &[condition, yes, no], ty, Attributes::new())
    }

    /// Casts an `i32` to an index.
    pub fn to_index(&mut self, value: Value) -> Value {
        self.op1("arith.index_cast", &[value], Type::Index, Attributes::new())
    }

    /// Converts between float widths; a no-op for equal types.
    pub fn to_float(&mut self, value: Value, float: Float) -> Value {
        let ty = self.ty(value).clone();
        let &Type::Float(from) = ty.element() else {
            panic!("{ty} does not hold floats");
        };
        match from.bits().cmp(&float.bits()) {
            std::cmp::Ordering::Equal if from == float => value,
            std::cmp::Ordering::Less => {
                self.op1("arith.extf", &[value], ty.with_element(float), Attributes::new())
            }
            std::cmp::Ordering::Greater => {
                self.op1("arith.truncf", &[value], ty.with_element(float), Attributes::new())
            }
            std::cmp::Ordering::Equal => panic!("there is no cast from {from} to {float}"),
        }
    }
}
