"""A Django site for measurements: settings, URLs and data of a shop, a forum or a content management system.

The site's own Python runs it: `python django_site.py KIND setup` creates the database, `... KIND serve PORT` serves it.
Every request is authenticated as the administrator, so that pages behind a login need no login.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path.cwd()
KIND = sys.argv[1] if len(sys.argv) > 1 else "oscar"

APPS = ("admin", "auth", "contenttypes", "sessions", "sites", "messages", "staticfiles", "flatpages")
BASE = [f"django.contrib.{app}" for app in APPS]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "__main__.as_administrator",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = "django.template.backends.django.DjangoTemplates"
CONTEXT = [
    *(f"django.template.context_processors.{name}" for name in ("debug", "request", "i18n", "static")),
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]


def as_administrator(get_response: Any) -> Any:
    """Middleware that authenticates every request as the administrator."""
    from django.contrib.auth import get_user_model

    def middleware(request: Any) -> Any:
        if not request.user.is_authenticated:
            request.user = get_user_model().objects.get(username="admin")
        return get_response(request)

    return middleware


def settings() -> dict[str, Any]:
    """Return the settings of this kind of site."""
    values: dict[str, Any] = {
        "DEBUG": True,
        "ST_SITE_URL": "http://127.0.0.1/",
        "SECRET_KEY": "measuring",
        "ALLOWED_HOSTS": ["*"],
        "ROOT_URLCONF": "__main__",
        "SITE_ID": 1,
        "STATIC_URL": "/static/",
        "MEDIA_URL": "/media/",
        "MEDIA_ROOT": str(HERE / "media"),
        "STATIC_ROOT": str(HERE / "static"),
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
        "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(HERE / "site.sqlite3")}},
        "CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        "HAYSTACK_CONNECTIONS": {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
        "INSTALLED_APPS": BASE,
        "MIDDLEWARE": MIDDLEWARE,
        "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        "TEMPLATES": [{"BACKEND": TEMPLATES, "APP_DIRS": True, "OPTIONS": {"context_processors": CONTEXT}}],
    }
    {"oscar": _oscar, "spirit": _spirit, "wagtail": _wagtail}[KIND](values)
    return values


def _oscar(values: dict[str, Any]) -> None:
    from oscar import INSTALLED_APPS
    from oscar.defaults import __dict__ as defaults

    values.update({name: value for name, value in defaults.items() if name.startswith("OSCAR")})
    values["INSTALLED_APPS"] = [*BASE, *(app for app in INSTALLED_APPS if app not in BASE)]
    values["MIDDLEWARE"] = [*MIDDLEWARE, "oscar.apps.basket.middleware.BasketMiddleware"]
    paths = [
        "oscar.apps.search.context_processors.search_form",
        "oscar.apps.checkout.context_processors.checkout",
        "oscar.apps.communication.notifications.context_processors.notifications",
        "oscar.core.context_processors.metadata",
    ]
    values["TEMPLATES"][0]["OPTIONS"]["context_processors"] = [*CONTEXT, *paths]
    values["AUTHENTICATION_BACKENDS"] = (
        "oscar.apps.customer.auth_backends.EmailBackend",
        "django.contrib.auth.backends.ModelBackend",
    )


def _spirit(values: dict[str, Any]) -> None:
    from spirit.extra.project_template.project_name.settings import base

    kept = ("ROOT_URLCONF", "CACHES", "MEDIA_ROOT", "STATIC_ROOT", "HAYSTACK_CONNECTIONS")
    unwanted = ("LOGGING", "WSGI_APPLICATION", *kept)
    values.update({name: getattr(base, name) for name in dir(base) if name.isupper() and name not in unwanted})
    login = values["MIDDLEWARE"].index("django.contrib.auth.middleware.AuthenticationMiddleware") + 1
    values["MIDDLEWARE"] = [*values["MIDDLEWARE"][:login], "__main__.as_administrator", *values["MIDDLEWARE"][login:]]
    values["CACHES"]["st_rate_limit"] = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "TIMEOUT": None}


def _wagtail(values: dict[str, Any]) -> None:
    apps = ("contrib.forms", "contrib.redirects", "embeds", "sites", "users", "snippets", "documents", "images",
            "search", "admin")  # fmt: skip
    values["INSTALLED_APPS"] = [*(f"wagtail.{app}" for app in apps), "wagtail", "modelcluster", "taggit", *BASE]
    values["WAGTAIL_SITE_NAME"] = "Measuring"
    values["WAGTAILADMIN_BASE_URL"] = "http://127.0.0.1"
    values["WAGTAIL_ENABLE_UPDATE_CHECK"] = False
    values["WAGTAIL_GRAVATAR_PROVIDER_URL"] = None
    values["WAGTAILSEARCH_BACKENDS"] = {"default": {"BACKEND": "wagtail.search.backends.database"}}


def addresses() -> list[Any]:
    """Return the URL patterns of this kind of site."""
    from django.apps import apps
    from django.contrib import admin
    from django.urls import include, path

    patterns: list[Any] = [path("i18n/", include("django.conf.urls.i18n")), path("admin/", admin.site.urls)]
    if KIND == "oscar":
        patterns.append(path("", include(apps.get_app_config("oscar").urls[0])))
    elif KIND == "spirit":
        import spirit.urls

        patterns.append(path("", include(spirit.urls)))
    else:
        from wagtail import urls
        from wagtail.admin import urls as admin_urls
        from wagtail.documents import urls as document_urls

        patterns += [path("cms/", include(admin_urls)), path("documents/", include(document_urls))]
        patterns.append(path("", include(urls)))
    return patterns


def fill() -> None:
    """Create the administrator and sample data."""
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.create_superuser("admin", "admin@example.org", "admin")
    {"oscar": _fill_shop, "spirit": _fill_forum, "wagtail": _fill_pages}[KIND](user)


def _fill_shop(_: Any) -> None:
    from decimal import Decimal

    from oscar.core.loading import get_model

    book = get_model("catalogue", "ProductClass").objects.create(name="Book", track_stock=True)
    partner = get_model("partner", "Partner").objects.create(name="Main warehouse")
    get_model("address", "Country").objects.create(
        iso_3166_1_a2="NO", printable_name="Norway", is_shipping_country=True
    )
    category = get_model("catalogue", "Category")
    roots = [category.add_root(name=name) for name in ("Fiction", "Science", "Cooking")]
    for number in range(24):
        product = get_model("catalogue", "Product").objects.create(
            product_class=book,
            title=f"The book of number {number}",
            upc=f"978{number:04}",
            description="<p>A <b>good</b> book.</p>",
        )
        product.categories.add(roots[number % 3])
        get_model("partner", "StockRecord").objects.create(
            product=product,
            partner=partner,
            partner_sku=f"sku{number}",
            price=Decimal(10 + number),
            num_in_stock=number % 5,
        )


def _fill_forum(user: Any) -> None:
    from spirit.category.models import Category
    from spirit.comment.models import Comment
    from spirit.topic.models import Topic

    talk = Category.objects.create(title="Talk", description="About anything.")
    for number in range(12):
        topic = Topic.objects.create(user=user, category=talk, title=f"Topic of number {number}", comment_count=3)
        for text in ("First", "Second, with a <a href='#x'>link</a>", "Third"):
            Comment.objects.create(user=user, topic=topic, comment=text, comment_html=f"<p>{text} comment.</p>")


def _fill_pages(_: Any) -> None:
    from wagtail.models import Page

    home = Page.objects.get(depth=2)
    for number in range(8):
        home.add_child(instance=Page(title=f"Page of number {number}"))


def main() -> None:
    """Set up or serve the site."""
    from django.conf import settings as configured

    # The forum and Wagtail also import this module by its name.
    sys.modules.setdefault("django_site", sys.modules["__main__"])
    configured.configure(**settings())
    import django
    from django.core.management import call_command

    django.setup()
    if sys.argv[2] == "setup":
        call_command("migrate", verbosity=0)
        fill()
        return
    global urlpatterns
    urlpatterns = addresses()
    call_command("runserver", f"127.0.0.1:{sys.argv[3]}", use_reloader=False)


urlpatterns: list[Any] = []

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    main()
