//! Names of operators and tensors that share a stem: `qkv output`, `gather qkv input`.

/// Declares a struct of names, and a macro that makes one from a stem, which `_` stands for. (The leading `$` is passed
/// in, as a macro cannot write it into another.)
macro_rules! names {
    (
        $dollar:tt $(#[$doc:meta])* $names:ident by $make:ident;
        $($name:ident: $before:literal _ $after:literal,)+
    ) => {
        $(#[$doc])*
        pub(in crate::model::transformer) struct $names {
            $(pub(in crate::model::transformer) $name: crate::model::names::Name,)+
        }

        macro_rules! $make {
            ($dollar stem:expr) => {
                &$names { $($name: crate::model::names::Name::of(concat!($before, $dollar stem, $after)),)+ }
            };
        }
        #[allow(unused_imports, reason = "some stems are only of the file of the names")]
        pub(in crate::model::transformer) use $make;
    };
}
pub(super) use names;
