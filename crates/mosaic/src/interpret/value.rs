//! Runtime values.

use std::sync::Arc;

use super::{array::Array, program::Unrunnable, view::View};

/// Elements of a vector, whose shape comes from its type. A splat is one number.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Floats(Arc<Vec<f32>>),
    Integers(Arc<Vec<i32>>),
    /// Float splat.
    Float(f32),
    /// Integer splat.
    Integer(i32),
}

/// A value slot of the running function.
#[derive(Clone, Debug, Default)]
pub(crate) enum Value {
    /// Not computed yet.
    #[default]
    Unset,
    Integer(i64),
    Float(f32),
    Vector(Data),
    View(View),
    /// A tensor of the program around a kernel.
    Array(Array),
    /// A tensor that could not be computed; says why.
    Missing(Arc<Unrunnable>),
}

impl Data {
    pub(crate) fn floats(values: Vec<f32>) -> Self {
        Self::Floats(Arc::new(values))
    }

    pub(crate) fn integers(values: Vec<i32>) -> Self {
        Self::Integers(Arc::new(values))
    }

    /// Elements as floats.
    pub(crate) fn to_floats(&self, len: usize) -> Arc<Vec<f32>> {
        match self {
            Self::Floats(values) => values.clone(),
            Self::Float(value) => Arc::new(vec![*value; len]),
            other => unreachable!("a vector of floats, not {other:?}"),
        }
    }

    /// Elements as integers.
    pub(crate) fn to_integers(&self, len: usize) -> Arc<Vec<i32>> {
        match self {
            Self::Integers(values) => values.clone(),
            Self::Integer(value) => Arc::new(vec![*value; len]),
            other => unreachable!("a vector of integers, not {other:?}"),
        }
    }

    /// Gathers the elements at these positions.
    pub(crate) fn gather(&self, places: impl ExactSizeIterator<Item = usize>) -> Self {
        match self {
            Self::Floats(values) => Self::floats(places.map(|place| values[place]).collect()),
            Self::Integers(values) => Self::integers(places.map(|place| values[place]).collect()),
            splat => splat.clone(),
        }
    }
}

/// Applies `f` elementwise to two vectors, reusing memory that is not shared.
#[inline]
pub(crate) fn zip_floats(a: Data, b: Data, f: impl Fn(f32, f32) -> f32) -> Data {
    match (a, b) {
        (Data::Floats(mut a), Data::Floats(mut b)) => {
            assert_eq!(a.len(), b.len(), "vectors of one type have one length");
            if let Some(own) = Arc::get_mut(&mut a) {
                own.iter_mut().zip(b.iter()).for_each(|(a, b)| *a = f(*a, *b));
                Data::Floats(a)
            } else if let Some(own) = Arc::get_mut(&mut b) {
                own.iter_mut().zip(a.iter()).for_each(|(b, a)| *b = f(*a, *b));
                Data::Floats(b)
            } else {
                Data::floats(a.iter().zip(b.iter()).map(|(a, b)| f(*a, *b)).collect())
            }
        }
        (a, Data::Float(b)) => map_floats(a, |a| f(a, b)),
        (Data::Float(a), b) => map_floats(b, |b| f(a, b)),
        (a, b) => unreachable!("two vectors of floats, not {a:?} and {b:?}"),
    }
}

/// Applies `f` elementwise, in place if the vector is not shared.
#[inline]
pub(crate) fn map_floats(a: Data, f: impl Fn(f32) -> f32) -> Data {
    match a {
        Data::Floats(mut a) => match Arc::get_mut(&mut a) {
            Some(own) => {
                own.iter_mut().for_each(|a| *a = f(*a));
                Data::Floats(a)
            }
            None => Data::floats(a.iter().map(|&a| f(a)).collect()),
        },
        Data::Float(a) => Data::Float(f(a)),
        other => unreachable!("a vector of floats, not {other:?}"),
    }
}

/// Applies `f` elementwise to two integer vectors.
#[inline]
pub(crate) fn zip_integers(a: Data, b: Data, f: impl Fn(i32, i32) -> i32) -> Data {
    match (a, b) {
        (Data::Integer(a), Data::Integer(b)) => Data::Integer(f(a, b)),
        (Data::Integers(a), Data::Integer(b)) => Data::integers(a.iter().map(|&a| f(a, b)).collect()),
        (Data::Integer(a), Data::Integers(b)) => Data::integers(b.iter().map(|&b| f(a, b)).collect()),
        (Data::Integers(a), Data::Integers(b)) => {
            assert_eq!(a.len(), b.len(), "vectors of one type have one length");
            Data::integers(a.iter().zip(b.iter()).map(|(&a, &b)| f(a, b)).collect())
        }
        (a, b) => unreachable!("two vectors of integers, not {a:?} and {b:?}"),
    }
}
