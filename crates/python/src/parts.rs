//! What Python passes as key parts and costs.

use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple};
use smallvec::SmallVec;

/// Costs stay below this: the counters are exact up to 2^53 - 1.
const COST_BOUND: u64 = 1 << 53;

/// One part of a key, or its absence.
pub enum Part<'a, 'py> {
    /// Not passed.
    Absent,
    /// The object, and its bytes.
    Given(Borrowed<'a, 'py, PyAny>, Bytes<'a>),
}

/// The bytes that a part counts under.
pub enum Bytes<'a> {
    Text(&'a [u8]),
    Number(Box<[u8]>),
}

impl Bytes<'_> {
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Number(digits) => digits,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Part<'a, 'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(object, bytes(object)?))
    }
}

/// `str` counts as its UTF-8, `bytes` as they are, `int` as its decimal text.
#[inline]
pub fn bytes<'a>(object: Borrowed<'a, '_, PyAny>) -> PyResult<Bytes<'a>> {
    match <&str>::extract(object) {
        Ok(text) => Ok(Bytes::Text(text.as_bytes())),
        // A lone surrogate has no UTF-8, and the error says so.
        Err(error) if object.is_instance_of::<PyString>() => Err(error),
        Err(_) => bytes_of_others(object),
    }
}

fn bytes_of_others<'a>(object: Borrowed<'a, '_, PyAny>) -> PyResult<Bytes<'a>> {
    if object.is_instance_of::<PyBytes>() {
        return Ok(Bytes::Text(<&[u8]>::extract(object)?));
    }
    if object.cast::<PyInt>().is_ok() && object.cast::<PyBool>().is_err() {
        return Ok(Bytes::Number(match object.extract::<i64>() {
            Ok(number) => Box::from(itoa::Buffer::new().format(number).as_bytes()),
            Err(_) => Box::from(object.str()?.to_str()?.as_bytes()),
        }));
    }
    let hint = if object.is_none() {
        "; a missing part would share one counter among all who lack it"
    } else {
        ""
    };
    let kind = object.get_type();
    let message = format!("key parts must be str, bytes or int, not {}{hint}", kind.name()?);
    Err(PyTypeError::new_err(message))
}

/// The key parts of one call; most calls have one or two.
pub struct Parts<'a, 'py> {
    given: SmallVec<[(Borrowed<'a, 'py, PyAny>, Bytes<'a>); 2]>,
}

impl<'a, 'py> Parts<'a, 'py> {
    /// Joins the parts that a signature names and the tuple of those beyond.
    #[inline]
    pub fn new(named: [Part<'a, 'py>; 2], rest: &'a Bound<'py, PyTuple>) -> PyResult<Self> {
        let mut given = SmallVec::new();
        for part in named {
            if let Part::Given(object, bytes) = part {
                given.push((object, bytes));
            }
        }
        for object in rest.iter_borrowed() {
            given.push((object, bytes(object)?));
        }
        Ok(Self { given })
    }

    /// The parts of a sequence that stands for a call's parts: a tuple, or one part alone.
    pub fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let mut given = SmallVec::new();
        if let Ok(tuple) = object.cast::<PyTuple>() {
            for object in tuple.iter_borrowed() {
                given.push((object, bytes(object)?));
            }
        } else {
            let object = object.as_borrowed();
            given.push((object, bytes(object)?));
        }
        Ok(Self { given })
    }

    /// Their bytes.
    #[inline]
    pub fn bytes(&self) -> SmallVec<[&[u8]; 4]> {
        self.given.iter().map(|(_, bytes)| bytes.as_slice()).collect()
    }

    /// The objects, to ask for the same key again.
    #[inline]
    pub fn objects(&self) -> SmallVec<[Py<PyAny>; 2]> {
        self.given.iter().map(|(object, _)| (**object).clone().unbind()).collect()
    }
}

/// How much a request takes.
#[derive(Clone, Copy)]
pub struct Cost(pub u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Cost {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.cast::<PyInt>().is_err() || object.cast::<PyBool>().is_ok() {
            let kind = object.get_type();
            return Err(PyTypeError::new_err(format!("cost must be an int, not {}", kind.name()?)));
        }
        match object.extract::<u64>() {
            Ok(cost) if cost < COST_BOUND => Ok(Self(cost)),
            _ if object.lt(0)? => Err(PyValueError::new_err(format!(
                "cost must not be negative, and is {}; give back with refund()",
                object.str()?
            ))),
            _ => Err(PyValueError::new_err(format!(
                "cost must be below 2^53, and is {}",
                object.str()?
            ))),
        }
    }
}
