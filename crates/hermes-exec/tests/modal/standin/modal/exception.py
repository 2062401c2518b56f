"""Errors as Modal's package names them."""


class Error(Exception):
    pass


class AuthError(Error):
    pass


class ConnectionError(Error):
    pass


class InvalidError(Error):
    pass


class ConflictError(InvalidError):
    pass


class NotFoundError(Error):
    pass


class PermissionDeniedError(Error):
    pass


class RemoteError(Error):
    pass
