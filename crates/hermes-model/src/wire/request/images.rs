//! Images inside a message: parsing of data URLs.

/// The parts of `data:<type>;base64,<data>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataUrl<'a> {
    pub(super) media_type: &'a str,
    pub(super) data: &'a str,
}

impl<'a> DataUrl<'a> {
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
        let mut parameters = head.split(';');
        let media_type = parameters.next().filter(|kind| !kind.is_empty()).unwrap_or("image/jpeg");
        parameters
            .any(|parameter| parameter.eq_ignore_ascii_case("base64"))
            .then_some(Self { media_type, data })
    }

    /// Returns AWS's name for the format.
    pub(super) fn format(self) -> &'a str {
        match self.media_type.rsplit('/').next() {
            Some("jpg") | None => "jpeg",
            Some(format) => format,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls() {
        let url = DataUrl::parse("data:image/png;base64,AAA=").unwrap();
        assert_eq!((url.media_type, url.data, url.format()), ("image/png", "AAA=", "png"));
        assert_eq!(DataUrl::parse("data:;base64,AA").unwrap().media_type, "image/jpeg");
        assert_eq!(DataUrl::parse("data:image/png,raw"), None);
        assert_eq!(DataUrl::parse("https://x/y.png"), None);
    }
}
