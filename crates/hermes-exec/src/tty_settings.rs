//! The settings of a terminal, in the form in which `stty` prints and takes them.

/// The settings of the terminal that is the standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtySettings {
    /// The path of the terminal, without spaces.
    pub(crate) device: String,
    pub(crate) values: String,
}

impl TtySettings {
    /// Reads the settings. Returns nothing when the standard input is no terminal with a name.
    pub fn read() -> Option<Self> {
        let device = std::fs::read_link("/proc/self/fd/0").ok()?.into_os_string().into_string().ok()?;
        if device.contains(char::is_whitespace) {
            return None;
        }
        // SAFETY: all bits of the structure are numbers, for which zero is a value; the call fills it.
        #[expect(
            unsafe_code,
            reason = "rustix shows the control characters by their names only, not by their places"
        )]
        let settings = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            (libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) == 0).then_some(settings)
        }?;
        let flags = [settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag];
        let words = flags.iter().map(|flags| format!("{flags:x}"));
        let characters = settings.c_cc.iter().map(|character| format!("{character:x}"));
        Some(Self { device, values: words.chain(characters).collect::<Vec<_>>().join(":") })
    }
}
