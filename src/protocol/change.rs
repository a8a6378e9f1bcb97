//! A field of a command that keeps, clears or sets a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a command does to a value: absent, null and a value mean three things to T3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Change<T> {
    /// The field is left out: the value stays as it is.
    #[default]
    Keep,
    /// The field is null: the value is taken away.
    Clear,
    /// The field has the new value.
    Set(T),
}

impl<T> Change<T> {
    /// The field is left out.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // A struct leaves a kept field out; on its own there is nothing but null to say.
            Self::Keep | Self::Clear => serializer.serialize_none(),
            Self::Set(value) => serializer.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}
