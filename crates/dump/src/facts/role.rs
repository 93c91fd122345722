//! Tells data from scales.

use super::Role;

/// The properties of an array that decide its role.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    pub name: &'a str,
    pub element: &'a str,
    pub dims: &'a [u64],
}

/// Tells scales from data. Scales are f32 and do not have the contraction dimension, the last one of the
/// 8-bit weight; without an 8-bit array, only names decide.
pub(crate) struct Roles {
    contraction: Option<u64>,
    largest: u64,
}

impl Roles {
    /// From all inputs of a kernel.
    pub(crate) fn of<'a>(arrays: impl Iterator<Item = Array<'a>> + Clone) -> Self {
        let narrow = arrays.filter(|array| is_narrow(array.element));
        let weight = narrow.max_by_key(|array| count(array.dims));
        Self {
            contraction: weight.and_then(|array| array.dims.last().copied()),
            largest: weight.map_or(0, |array| count(array.dims)),
        }
    }

    /// The role of one array.
    pub(crate) fn role(&self, array: Array<'_>) -> Role {
        let name = array.name.to_ascii_lowercase();
        let named = name.contains("scale") || name.contains("abs_max");
        let shares = array.dims.last().copied() == self.contraction && count(array.dims) > 1;
        // An accumulator is f32 too, but large.
        let small = count(array.dims).saturating_mul(64) <= self.largest;
        let looks = self.contraction.is_some() && array.element == "f32" && small && !shares;
        if (named && array.element == "f32") || looks { Role::Scale } else { Role::Data }
    }
}

fn count(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
}

/// Whether an element has 8 bits or fewer: `f8e4m3fn`, `F8E4M3FN`, `s8`, `i4`.
pub(crate) fn is_narrow(element: &str) -> bool {
    let digits = element.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let bits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    bits.parse::<u32>().is_ok_and(|bits| bits <= 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array<'a>(element: &'a str, dims: &'a [u64]) -> Array<'a> {
        Array { name: "", element, dims }
    }

    #[test]
    fn scales_are_told_from_data() {
        let (x, w) = (array("f32", &[16, 4096]), array("f8e4m3fn", &[4096, 4096]));
        let scales = array("f32", &[32, 32, 1, 1]);
        let roles = Roles::of([x, w, scales].into_iter());
        assert_eq!([x, w, scales].map(|a| roles.role(a)), [Role::Data, Role::Data, Role::Scale]);
    }

    #[test]
    fn an_accumulator_is_no_scale() {
        let (w, scale, accumulator) =
            (array("f8E4M3FN", &[2, 512, 512]), array("f32", &[2, 1, 1]), array("f32", &[512, 512]));
        let roles = Roles::of([w, scale, accumulator].into_iter());
        assert_eq!([scale, accumulator].map(|a| roles.role(a)), [Role::Scale, Role::Data]);
    }

    #[test]
    fn without_an_8_bit_array_names_tell() {
        let roles = Roles::of(std::iter::empty());
        assert_eq!(roles.role(array("f32", &[1])), Role::Data);
        assert_eq!(roles.role(Array { name: "w_scale_x2", element: "f32", dims: &[2, 1, 1] }), Role::Scale);
    }
}
