//! A layer of a graph network, as operators on rows of nodes, of edges, or of pairs of a node and a
//! type of edges. Types of nodes and edges choose weights; nothing here says which kernels compute
//! it.

/// A layer: values in an order in which each follows those it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkLayer {
    /// Its values.
    pub values: Vec<Value>,
    /// Its weights.
    pub weights: Vec<Weight>,
    /// Result: rows of destinations.
    pub output: ValueId,
}

/// Index into [`NetworkLayer::values`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// Index into [`NetworkLayer::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightId(pub usize);

/// Rows of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Word for people.
    pub name: &'static str,
    /// Things that it has a row for.
    pub space: Space,
    /// Numbers of a row.
    pub width: u64,
    /// Source of its rows.
    pub made: Made,
}

/// Things that a value has a row for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Each node whose features a layer reads.
    Sources,
    /// Each node that a layer makes features of; they are the first of the sources.
    Destinations,
    /// Each edge.
    Edges,
    /// Each node at an end of edges with a type of these edges: what depends on both is there once.
    Pairs(End),
    /// Each node of the type at an end of a type of edges, once for each such type, whether edges
    /// are there or not.
    Typed(End),
}

impl Space {
    /// Where nodes of its rows are on edges; edges count for their destinations.
    pub const fn end(self) -> End {
        match self {
            Self::Sources | Self::Pairs(End::Source) | Self::Typed(End::Source) => End::Source,
            _ => End::Destination,
        }
    }
}

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Where it begins.
    Source,
    /// Where it leads.
    Destination,
}

impl End {
    /// The space of the nodes at this end.
    pub const fn nodes(self) -> Space {
        match self {
            Self::Source => Space::Sources,
            Self::Destination => Space::Destinations,
        }
    }
}

/// Source of the rows of a value. What an edge needs of a node or a pair is that at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// Features of the sources: given.
    Features,
    /// Features of the destinations: the first rows of the features.
    OwnFeatures,
    /// A number of each edge: given.
    EdgeConstant,
    /// Rows times a weight of their type.
    Linear(ValueId, WeightId),
    /// Inner products of two values, one for each head.
    Dot(ValueId, ValueId),
    /// A function of elements at the same place.
    Map(Vec<ValueId>, Function),
    /// Softmax over the edges that lead to a node.
    Softmax(ValueId),
    /// Sum over the edges that lead to a node, each times its factor where there is one.
    Sum(ValueId, Option<ValueId>),
}

/// A function of elements at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Sum of all.
    Add,
    /// Product of all.
    Multiply,
    /// Over the number of edges that lead to a node.
    Mean,
    /// max(x, x / 5).
    LeakyRelu,
    /// max(x, 0).
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// Some elements become 0.
    Dropout,
    /// Gaussian error linear unit.
    Gelu,
    /// Sum of a result and an input, each in its share: a parameter of the type through a sigmoid.
    Gate(WeightId),
    /// Normalisation of a row, times and plus a parameter of its type.
    Norm(WeightId),
    /// Sum with a parameter.
    Bias(WeightId),
}

/// A weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Word for people.
    pub name: &'static str,
    /// How many there are of it.
    pub by: By,
    /// Blocks on its diagonal: attention heads.
    pub heads: u64,
    /// Rows of a block.
    pub rows: u64,
    /// Columns of a block.
    pub columns: u64,
    /// Two weights whose product it is. `None`: it is a parameter.
    pub product: Option<[WeightId; 2]>,
}

/// Things that a weight is there once for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// All rows.
    Nothing,
    /// Each type of the nodes of the value that it multiplies.
    NodeType,
    /// Each type of edges.
    EdgeType,
}

impl NetworkLayer {
    /// Adds a value.
    pub fn value(&mut self, name: &'static str, space: Space, width: u64, made: Made) -> ValueId {
        self.values.push(Value { name, space, width, made });
        ValueId(self.values.len() - 1)
    }

    /// Adds a parameter.
    pub fn weight(&mut self, name: &'static str, by: By, [heads, rows, columns]: [u64; 3]) -> WeightId {
        self.weights.push(Weight { name, by, heads, rows, columns, product: None });
        WeightId(self.weights.len() - 1)
    }

    /// The value.
    pub fn get(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Ids of its values, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ValueId> + use<> {
        (0..self.values.len()).map(ValueId)
    }

    /// Values that are made of one.
    pub fn readers(&self, of: ValueId) -> impl Iterator<Item = ValueId> {
        self.ids().filter(move |&id| self.get(id).made.reads().contains(&of))
    }

    /// For each value, whether what the layer makes is made of it.
    pub fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        needed[self.output.0] = true;
        for id in self.ids().rev() {
            if needed[id.0] {
                self.get(id).made.reads().iter().for_each(|read| needed[read.0] = true);
            }
        }
        needed
    }
}

impl Made {
    /// The weight that it reads.
    pub const fn weight(&self) -> Option<WeightId> {
        match self {
            &Self::Linear(_, weight)
            | &Self::Map(_, Function::Gate(weight) | Function::Norm(weight) | Function::Bias(weight)) => {
                Some(weight)
            }
            _ => None,
        }
    }

    /// Values that it reads.
    pub fn reads(&self) -> Vec<ValueId> {
        let mut own = self.clone();
        own.reads_mut().map(|read| *read).collect()
    }

    /// Access to the same.
    pub fn reads_mut(&mut self) -> Box<dyn Iterator<Item = &mut ValueId> + '_> {
        match self {
            Self::Features | Self::OwnFeatures | Self::EdgeConstant => Box::new(std::iter::empty()),
            Self::Linear(of, _) | Self::Softmax(of) => Box::new([of].into_iter()),
            Self::Dot(left, right) => Box::new([left, right].into_iter()),
            Self::Map(of, _) => Box::new(of.iter_mut()),
            Self::Sum(message, factor) => Box::new([message].into_iter().chain(factor)),
        }
    }
}

impl Weight {
    /// Elements of one of its copies.
    pub const fn elements(&self) -> u64 {
        self.heads * self.rows * self.columns
    }
}
