//! Reads unions that a tag tells apart: what the generated ones share.
//!
//! serde's own tagged enums read the whole object into a buffer first, lose the path of an error in it, and have no way to tell
//! an unknown tag from a known one with wrong content. Here only the fields before the tag are kept back (T3's stream items
//! begin with it), and everything after it goes to the member as it comes. They are kept as text: read from a value tree, each type of the
//! program would be there a second time.

use std::fmt;
use std::marker::PhantomData;
use std::vec;

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::value::RawValue;

use super::decode::{self, located};

/// A union of objects.
pub(super) trait Tagged<'de>: Sized {
    /// Its name, for errors.
    const NAME: &'static str;
    /// The field that tells its members apart.
    const TAG: &'static str;
    /// The member of a tag, from the other fields.
    fn member<D: Deserializer<'de>>(tag: &str, fields: D) -> Result<Self, D::Error>;
}

/// Reads a union.
pub(super) fn deserialize<'de, T: Tagged<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

/// Reads the fields of a member of which nothing is wanted.
pub(super) fn skip<'de, D: Deserializer<'de>>(fields: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(fields).map(|_| ())
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Tagged<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{}` (`{}`)", T::TAG, T::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut before = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == T::TAG {
                let tag: String = map.next_value()?;
                return T::member(
                    &tag,
                    Fields {
                        before: before.into_iter(),
                        value: None,
                        rest: map,
                    },
                );
            }
            before.push((key, map.next_value()?));
        }
        Err(A::Error::missing_field(T::TAG))
    }
}

/// The fields of a member: those that stood before the tag, then the rest.
struct Fields<'de, A> {
    before: vec::IntoIter<(String, &'de RawValue)>,
    value: Option<(String, &'de RawValue)>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some((key, value)) = self.before.next() else {
            return self.rest.next_key_seed(seed);
        };
        let name: StringDeserializer<A::Error> = key.clone().into_deserializer();
        self.value = Some((key, value));
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let Some((key, value)) = self.value.take() else {
            return self.rest.next_value_seed(seed);
        };
        decode::seed(seed, value)
            .map_err(|fault| A::Error::custom(located(&decode::join(&key, &fault.path), &fault.message)))
    }
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Fields<'de, A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
