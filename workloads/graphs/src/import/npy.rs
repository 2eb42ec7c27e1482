//! Edges as an array of NumPy, of 2 x E or E x 2 whole numbers (NEP 1).

use std::io::Read;

use super::count::Counter;
use super::{Fault, MOST_NODES, unreadable};

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Edges of arrays that have all sources before all destinations: sources wait in 1 GiB.
const MOST_WAITING: u64 = 1 << 28;

/// Reads the array.
pub(super) fn read(input: &mut impl Read, counter: &mut Counter) -> Result<(), Fault> {
    let header = Header::read(input)?;
    let mut numbers = Numbers { input, header: &header, at: 0 };
    if header.paired {
        for _ in 0..header.edges {
            let source = numbers.next()?;
            counter.edge(source, numbers.next()?)?;
        }
    } else {
        if header.edges > MOST_WAITING {
            let fault = format!("has all {} sources before the destinations", header.edges);
            return Err(Fault::new(
                "shape",
                fault,
                "save it as E x 2: `np.save(file, np.ascontiguousarray(edges.T))`",
            ));
        }
        let mut sources = Vec::new();
        for _ in 0..header.edges {
            sources.push(numbers.next()?);
        }
        for source in sources {
            counter.edge(source, numbers.next()?)?;
        }
    }
    Ok(())
}

/// Layout of an array.
struct Header {
    edges: u64,
    /// Source and destination of an edge stand next to each other.
    paired: bool,
    /// Bytes of a number.
    width: usize,
    signed: bool,
    big_endian: bool,
}

impl Header {
    fn read(input: &mut impl Read) -> Result<Self, Fault> {
        let mut start = [0; 8];
        fill(input, &mut start, "header")?;
        // Versions from 2 on have four bytes of length.
        let mut length = [0; 4];
        fill(input, &mut length[..if start[6] == 1 { 2 } else { 4 }], "header")?;
        let length = u32::from_le_bytes(length);
        if length > 65_536 {
            return Err(Fault::new("header", format!("has {length} bytes"), "write it again with `np.save`"));
        }
        let mut text = vec![0; length as usize];
        fill(input, &mut text, "header")?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let after = |key: &str| text.split_once(key).map(|(_, rest)| rest.trim_start_matches([':', ' ']));
        let broken = |key: &str| Fault::new("header", format!("has no {key}"), "write it with `np.save`");
        let kind = after("'descr'").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next());
        let kind = kind.ok_or_else(|| broken("`descr`"))?;
        let (signed, width) = match kind.get(1..) {
            Some("i2") => (true, 2),
            Some("i4") => (true, 4),
            Some("i8") => (true, 8),
            Some("u2") => (false, 2),
            Some("u4") => (false, 4),
            Some("u8") => (false, 8),
            _ => {
                let remedy = "convert it with `edges.astype(np.int64)`";
                return Err(Fault::new("header", format!("says that numbers are `{kind}`"), remedy));
            }
        };
        let columns_first =
            after("'fortran_order'").ok_or_else(|| broken("`fortran_order`"))?.starts_with("True");
        let shape = after("'shape'").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
        let shape = shape.ok_or_else(|| broken("`shape`"))?;
        let sizes: Vec<Option<u64>> = shape
            .split(',')
            .map(str::trim)
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().ok())
            .collect();
        let (edges, by_edge) = match sizes.as_slice() {
            [Some(2), Some(edges)] => (*edges, false),
            [Some(edges), Some(2)] => (*edges, true),
            _ => {
                let remedy = "save sources and destinations as `np.stack([sources, destinations])`";
                return Err(Fault::new("shape", format!("is ({shape}), not (2, E)"), remedy));
            }
        };
        Ok(Self { edges, paired: by_edge != columns_first, width, signed, big_endian: kind.starts_with('>') })
    }
}

/// Numbers of an array, in the order of the file.
struct Numbers<'a, R> {
    input: &'a mut R,
    header: &'a Header,
    at: u64,
}

impl<R: Read> Numbers<'_, R> {
    fn next(&mut self) -> Result<u32, Fault> {
        let Header { width, signed, big_endian, edges, .. } = *self.header;
        let mut bytes = [0; 8];
        let place = || format!("number {} of {}", self.at + 1, u128::from(edges) * 2);
        if self.input.read_exact(&mut bytes[..width]).is_err() {
            let fault = "is missing, the file ends before";
            return Err(Fault::new(place(), fault, "copy or download it again, to the end"));
        }
        if big_endian {
            bytes[..width].reverse();
        }
        let mut number = u64::from_le_bytes(bytes);
        let negative = signed && number >> (8 * width - 1) & 1 == 1;
        if negative {
            number = u64::MAX;
        }
        if number >= MOST_NODES {
            let fault = if negative {
                "is negative".to_owned()
            } else {
                format!("is {number}, not below {MOST_NODES}")
            };
            return Err(Fault::new(
                place(),
                fault,
                "renumber nodes: `np.unique(edges, return_inverse=True)`",
            ));
        }
        self.at += 1;
        Ok(number as u32)
    }
}

fn fill(input: &mut impl Read, bytes: &mut [u8], place: &str) -> Result<(), Fault> {
    input.read_exact(bytes).map_err(|error| Fault { place: place.to_owned(), ..unreadable(&error) })
}
