//! Typed builders for StableHLO operations.

use octile_core::{FloatKind, plan::ElementType};
use octile_mosaic::{Attr, Attributes, Float, FunctionBuilder, Type, Value};

/// The IR type of a float of the problem.
pub(crate) fn float(kind: FloatKind) -> Float {
    element(kind.into())
}

/// The IR type of a planned buffer's elements.
pub(crate) fn element(element: ElementType) -> Float {
    match element {
        ElementType::F8E4M3 => Float::F8E4M3FN,
        ElementType::Bf16 => Float::Bf16,
        ElementType::F16 => Float::F16,
        ElementType::F32 => Float::F32,
        ElementType::B64 => panic!("a TPU kernel has no barriers in memory"),
    }
}

/// Adds StableHLO operations to a function.
pub(crate) struct Hlo<'b>(pub(crate) &'b mut FunctionBuilder);

impl Hlo<'_> {
    fn shape(&self, value: Value) -> Vec<usize> {
        self.0.ty(value).shape().to_vec()
    }

    fn unary(&mut self, name: &'static str, value: Value, shape: &[usize], attributes: Attributes) -> Value {
        let ty = self.0.ty(value).with_shape(shape);
        self.0.op1(name, &[value], ty, attributes)
    }

    fn scalar(&mut self, value: f32, element: Float) -> Value {
        let ty = Type::tensor([], element);
        let number = Attr::Float(f64::from(value), element.into());
        let attributes = Attributes::new().with("value", Attr::Splat(Box::new(number), ty.clone()));
        self.0.op1("stablehlo.constant", &[], ty, attributes)
    }

    /// Pads with zeros after the last row and column, up to `shape`. Emits nothing if the shape is the same.
    pub(crate) fn pad(&mut self, value: Value, shape: &[usize]) -> Value {
        let from = self.shape(value);
        if from == shape {
            return value;
        }
        let &Type::Float(element) = self.0.ty(value).element() else {
            panic!("only floats are padded");
        };
        let zero = self.scalar(0.0, element);
        let high: Vec<usize> = shape.iter().zip(&from).map(|(to, from)| to - from).collect();
        let none = Attr::extents(&vec![0; shape.len()]);
        let attributes = Attributes::new()
            .with("edge_padding_low", none.clone())
            .with("edge_padding_high", Attr::extents(&high))
            .with("interior_padding", none);
        let ty = self.0.ty(value).with_shape(shape);
        self.0.op1("stablehlo.pad", &[value, zero], ty, attributes)
    }

    /// Slices the first rows and columns, up to `shape`. Emits nothing if the shape is the same.
    pub(crate) fn take(&mut self, value: Value, shape: &[usize]) -> Value {
        if self.shape(value) == shape {
            return value;
        }
        let attributes = Attributes::new()
            .with("start_indices", Attr::extents(&vec![0; shape.len()]))
            .with("limit_indices", Attr::extents(shape))
            .with("strides", Attr::extents(&vec![1; shape.len()]));
        self.unary("stablehlo.slice", value, shape, attributes)
    }

    /// Reshapes. Emits nothing if the shape is the same.
    pub(crate) fn reshape(&mut self, value: Value, shape: &[usize]) -> Value {
        if self.shape(value) == shape {
            return value;
        }
        self.unary("stablehlo.reshape", value, shape, Attributes::new())
    }

    /// Permutes the dimensions.
    pub(crate) fn transpose(&mut self, value: Value, order: &[usize]) -> Value {
        let from = self.shape(value);
        let shape: Vec<usize> = order.iter().map(|&dimension| from[dimension]).collect();
        let attributes = Attributes::new().with("permutation", Attr::extents(order));
        self.unary("stablehlo.transpose", value, &shape, attributes)
    }

    /// Converts the elements. Emits nothing if the type is the same.
    pub(crate) fn convert(&mut self, value: Value, element: Float) -> Value {
        let ty = self.0.ty(value).with_element(element);
        if *self.0.ty(value) == ty {
            return value;
        }
        self.0.op1("stablehlo.convert", &[value], ty, Attributes::new())
    }

    fn binary(&mut self, name: &'static str, a: Value, b: Value) -> Value {
        let ty = self.0.ty(a).clone();
        assert_eq!(&ty, self.0.ty(b), "{name} takes two tensors of one type");
        self.0.op1(name, &[a, b], ty, Attributes::new())
    }

    /// Elementwise product.
    pub(crate) fn multiply(&mut self, a: Value, b: Value) -> Value {
        self.binary("stablehlo.multiply", a, b)
    }

    /// Elementwise quotient.
    pub(crate) fn divide(&mut self, a: Value, b: Value) -> Value {
        self.binary("stablehlo.divide", a, b)
    }

    /// Elementwise maximum.
    pub(crate) fn maximum(&mut self, a: Value, b: Value) -> Value {
        self.binary("stablehlo.maximum", a, b)
    }

    /// Elementwise absolute value.
    pub(crate) fn abs(&mut self, value: Value) -> Value {
        let shape = self.shape(value);
        self.unary("stablehlo.abs", value, &shape, Attributes::new())
    }

    /// A tensor of equal elements.
    pub(crate) fn fill(&mut self, value: f32, element: Float, shape: &[usize]) -> Value {
        let scalar = self.scalar(value, element);
        self.broadcast(scalar, &[], shape)
    }

    /// Broadcasts: dimension `i` becomes dimension `dimensions[i]` of `shape`.
    pub(crate) fn broadcast(&mut self, value: Value, dimensions: &[usize], shape: &[usize]) -> Value {
        let attributes = Attributes::new().with("broadcast_dimensions", Attr::extents(dimensions));
        self.unary("stablehlo.broadcast_in_dim", value, shape, attributes)
    }

    /// Reduces `dimensions` with a maximum that starts at 0, for magnitudes.
    pub(crate) fn largest(&mut self, value: Value, dimensions: &[usize]) -> Value {
        let from = self.shape(value);
        let &Type::Float(element) = self.0.ty(value).element() else {
            panic!("only floats are reduced");
        };
        let zero = self.scalar(0.0, element);
        let scalar = Type::tensor([], element);
        let body = self.0.region(&[scalar.clone(), scalar], |b, arguments| {
            let larger = Hlo(b).maximum(arguments[0], arguments[1]);
            b.op0("stablehlo.return", &[larger], Attributes::new());
        });
        let kept = (0..from.len()).filter(|dimension| !dimensions.contains(dimension));
        let shape: Vec<usize> = kept.map(|dimension| from[dimension]).collect();
        let ty = self.0.ty(value).with_shape(shape);
        let attributes = Attributes::new().with("dimensions", Attr::extents(dimensions));
        let results = self.0.op("stablehlo.reduce", &[value, zero], &[ty], attributes, vec![body]);
        results[0]
    }

    /// `lhs` times the transpose of `rhs`, in f32.
    pub(crate) fn dot(&mut self, lhs: Value, rhs: Value) -> Value {
        let shape = [self.shape(lhs)[0], self.shape(rhs)[0]];
        let dimensions = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>";
        let highest = Attr::Other("#stablehlo<precision HIGHEST>".into());
        let attributes = Attributes::new()
            .with("dot_dimension_numbers", Attr::Other(dimensions.into()))
            .with("precision_config", Attr::Array(vec![highest.clone(), highest]));
        let ty = Type::tensor(shape, Float::F32);
        self.0.op1("stablehlo.dot_general", &[lhs, rhs], ty, attributes)
    }
}
