//! Messages of a Chakra file, as far as they are read (`et_def.proto` of MLCommons Chakra 0.0.4).

use prost::{Message, Oneof};

/// The first message of a file. The version is of 0.0.4 and later; before, attributes had its tag.
#[derive(Clone, PartialEq, Message)]
pub struct GlobalMetadata {
    /// Version of the schema, or an attribute in files of before.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub version: Vec<Vec<u8>>,
}

/// An operation, and what it comes after.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    /// Number by which others depend on it.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name of the operator or kernel, UTF-8.
    #[prost(bytes = "vec", tag = "2")]
    pub name: Vec<u8>,
    /// Number of its type.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    /// Nodes before it: its caller, or the order of a program.
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    /// Nodes before it: operands, or the order of execution.
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    /// Recorded begin; 0 where converters leave it out.
    #[prost(uint64, tag = "6")]
    pub start_time_micros: u64,
    /// Recorded duration without the nodes that it calls; 0 where only a machine could tell it.
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    /// Facts by name.
    #[prost(message, repeated, tag = "10")]
    pub attr: Vec<Attribute>,
}

/// A fact of a node.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Its name, UTF-8.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// Its value; `None`: of a type that no replay needs.
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27")]
    pub value: Option<Value>,
}

/// A whole number or a truth, in any encoding.
#[derive(Clone, Copy, PartialEq, Oneof)]
#[allow(missing_docs)]
pub enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
}

impl Value {
    /// The number, if 64 bits with a sign hold it; a truth is 0 or 1.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Int32(value) | Self::Sint32(value) | Self::Sfixed32(value) => Some(value.into()),
            Self::Int64(value) | Self::Sint64(value) | Self::Sfixed64(value) => Some(value),
            Self::Uint32(value) | Self::Fixed32(value) => Some(value.into()),
            Self::Uint64(value) | Self::Fixed64(value) => value.try_into().ok(),
            Self::Bool(value) => Some(value.into()),
        }
    }
}
